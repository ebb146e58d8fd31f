"""Settings of the experiment file for clients that give up: time-outs, cancelled requests and retries."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from simsys.config.base import invalid
from simsys.config.discriminators import Part
from simsys.config.lengths import Length, Time
from simsys.units import NonNegativeSeconds, Seconds

Share = Annotated[float, Field(strict=True, gt=0, le=1)]


class RetryConfig(Part):
    """A client that sends a request again after a time-out, or after its rejection by a router.

    The k-th retry comes `backoff` · `factor` ** (k - 1) after the attempt before it has failed, at most `max_backoff`.
    With `jitter`, each wait is drawn evenly from 0 to that time ("full jitter"; AWS Architecture Blog, "Exponential
    Backoff And Jitter", 2015).
    """

    attempts: Annotated[int, Field(strict=True, ge=1, le=20)] = Field(description="Most retries of a request")
    backoff: NonNegativeSeconds = Field(default=1.0, description="Wait before the first retry")
    factor: Annotated[float, Field(strict=True, ge=1, le=100)] = Field(
        default=2.0, description="Factor by which the wait grows with each retry"
    )
    max_backoff: Seconds = Field(default=60.0, description="Longest wait before a retry")
    jitter: bool = Field(default=False, description="Draw each wait evenly from 0 to its full length")


class CancellationConfig(Part):
    """When clients give up a request.

    `ttft_timeout` limits the wait for the first token, `timeout` the wait for the last one, both from the arrival.
    In addition, a `share` of the requests is cancelled by users: `after` some time from the arrival, or with
    `after_tokens` output tokens. A cancelled request leaves the queue at once, and the batch after the step under way.
    After a time-out a client may retry; users who cancel do not. Later turns of a conversation without an answer are
    not sent.
    """

    ttft_timeout: Seconds | None = Field(default=None, description="Longest wait of a client for the first token")
    timeout: Seconds | None = Field(default=None, description="Longest wait of a client for the last token")
    share: Share | None = Field(default=None, description="Share of the requests that users cancel")
    after: Time | None = Field(default=None, description="Time from the arrival at which a user cancels a request")
    after_tokens: Length | None = Field(
        default=None, description="Output tokens with which a user cancels a request, if it has more"
    )
    retry: RetryConfig | None = Field(default=None, description="How often and when a client sends a request again")

    @model_validator(mode="after")
    def _users_cancel_in_one_way(self) -> Self:
        given = [name for name in ("after", "after_tokens") if getattr(self, name) is not None]
        if self.share is None and given:
            raise invalid(f"{given[0]} needs the share of the requests that users cancel, such as share: 0.1")
        if self.share is not None and len(given) != 1:
            raise invalid("with a share, give either after, such as 10 s, or after_tokens, such as 50")
        if self.after_tokens is not None and self.after_tokens.kind == "trace":
            raise invalid("after_tokens cannot come from a trace; give a number or a distribution")
        return self

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        first, last = self.ttft_timeout, self.timeout
        if first is None and last is None and self.share is None and self.retry is None:
            raise invalid("cancellation is empty; give ttft_timeout, timeout, or the share that users cancel")
        if first is not None and last is not None and first >= last:
            raise invalid("ttft_timeout has no effect, as it is not below timeout; remove one of them")
        return self
