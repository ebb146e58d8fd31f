"""The encoder of images of one engine: its cache, its budget of a step, and the passes that a step waits for.

As vLLM V1 schedules (vllm/v1/core/sched/scheduler.py, ``_try_schedule_encoder_inputs``; encoder_cache_manager.py). An
image is encoded whole in the step whose chunk reaches it, before the pass of the language model. If the encoder's
budget of the step or its cache has no room, the chunk ends before the image. The embeddings are held until the prompt
is processed beyond the image; then they stay until their room is needed, those that were freed first going first. An
image with embeddings in the cache is not encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from simsys.model.batch import Batch
from simsys.probes import Probes
from simsys.serving.requests import RequestTable
from simsys.serving.swap import SwapSpace
from simsys.teams import Team

if TYPE_CHECKING:
    from simpy.events import Event

    from simsys.serving.sequences import Sequences


class ImageLimits(NamedTuple):
    """What an encoder has room for.

    Args:
        per_step: Images that are encoded in a step at most.
        cached: Images in its cache at most.
    """

    per_step: int
    cached: int


class ImageEncoder(SwapSpace):
    """The encoder of an engine; preempted requests are computed again.

    Args:
        requests: All requests, with their images.
        limits: What the encoder has room for.
        team: The ranks, with the encoder as their model.
        batch: The batch of a pass over a number of images.
        probes: Observers.
    """

    def __init__(
        self,
        requests: RequestTable,
        limits: ImageLimits,
        team: Team,
        batch: Callable[[int], Batch],
        probes: Probes,
    ) -> None:
        super().__init__(0, team, {})
        assert requests.image is not None
        self._images, self._limits = requests.images, limits
        self._tokens = requests.image.prompt_tokens
        self._batch, self._hooks = batch, probes.images_encoded
        self._looked_up = probes.image_lookup
        self._users: dict[int, dict[int, None]] = {}
        """The requests that need each cached image."""
        self._unused: dict[int, None] = {}
        """Cached images that no request needs, the ones freed first in front."""
        self._open: dict[int, list[int]] = {}
        """Of requests with cached images that they need: the number of images looked up, and of those freed."""
        self._pending: dict[int, None] = {}
        """Images that are encoded before the next step."""
        self._sequences: Sequences
        self._prefilling: dict[int, None] = {}

    def serve(self, sequences: Sequences, prefilling: dict[int, None]) -> None:
        """The encoder works for a scheduler, with these sequences, of which some have incomplete prompts."""
        self._sequences, self._prefilling = sequences, prefilling

    def prepare(self) -> None:
        """A step is scheduled next: free what the prompts have passed."""
        for request in list(self._open):
            self._free(request)

    def reach(self, request: int, start: int, tokens: int) -> int:
        """How many of a number of tokens a chunk may have, so that it has no image without embeddings.

        Args:
            request: The request.
            start: Tokens that are processed before it.
            tokens: Tokens that it would have.
        """
        new = dict[int, None]()
        budget = self._limits.per_step - len(self._pending)
        room = self._limits.cached - (len(self._users) - len(self._unused))
        for _, image, begins in self._within(request, start, tokens):
            if image not in new and image not in self._users:
                budget -= 1
            new[image] = None
            if budget < 0 or len(new) - self._in_use(new) > room:
                return max(0, begins - start)
        return tokens

    def _in_use(self, images: dict[int, None]) -> int:
        """How many of some images are cached, and in use."""
        return sum(image in self._users and image not in self._unused for image in images)

    def take(self, request: int, start: int, tokens: int) -> None:
        """A chunk that `reach` has allowed is in the next step."""
        for number, image, _ in self._within(request, start, tokens):
            users, found = self._users.get(image), self._open.setdefault(request, [0, 0])
            first = number >= found[0]
            found[0] = max(found[0], number + 1)
            if first:
                for hook in self._looked_up:
                    hook(request, users is not None)
            if users is None:
                users = self._users[image] = self._add(image)
            self._unused.pop(image, None)
            users[request] = None

    def _add(self, image: int) -> dict[int, None]:
        """Encode an image; the one that was freed first gives it its room if there is no other."""
        if len(self._users) >= self._limits.cached:
            oldest = next(iter(self._unused))
            del self._unused[oldest], self._users[oldest]
        self._pending[image] = None
        return {}

    def leave(self, request: int) -> None:
        """A running request loses what it has: it needs no image now."""
        if request in self._open:
            del self._open[request]
            for image in dict.fromkeys(self._images[request]):
                self._release(request, image)

    def concerns(self, chunks: Sequence[tuple[int, int]]) -> bool:
        """Whether a request of some chunks has images."""
        return any(self._images[request] for request, _ in chunks)

    def copies(self, chunks: Sequence[tuple[int, int]]) -> Event | None:
        """Start the pass over the images of the next step; None if there are none."""
        count = len(self._pending)
        if not count:
            return None
        self._pending.clear()
        event = self._team.forward(self._batch(count), name="encoder")
        if self._hooks:
            started_s = event.env.now
            assert event.callbacks is not None
            event.callbacks.append(lambda ended: self._tell(count, started_s, ended.env.now))
        return event

    def _tell(self, count: int, started_s: float, ended_s: float) -> None:
        for hook in self._hooks:
            hook(self._team.group.ranks[0], count, started_s, ended_s)

    def _within(self, request: int, start: int, tokens: int) -> Iterator[tuple[int, int, int]]:
        """The images of which tokens are in a chunk: number, id and first token."""
        images = self._images[request]
        begins = self._sequences.prompt_tokens[request] - len(images) * self._tokens
        for number, image in enumerate(images):
            if begins >= start + tokens:
                return
            if begins + self._tokens > start:
                yield number, image, begins
            begins += self._tokens

    def _free(self, request: int) -> None:
        """Free the images that a prompt has passed."""
        images, found = self._images[request], self._open[request]
        computed = self._sequences.computed_tokens[request]
        after = self._sequences.prompt_tokens[request]
        passed = len(images)
        if request in self._prefilling:
            passed = max(0, passed + (computed - after) // self._tokens) if computed < after else passed
        while found[1] < passed:
            self._release(request, images[found[1]])
            found[1] += 1
        if passed == len(images):
            del self._open[request]

    def _release(self, request: int, image: int) -> None:
        """A request does not need an image any more; an image that is not encoded yet may be forgotten."""
        users = self._users.get(image)
        if users is None or request not in users:
            return
        del users[request]
        if users:
            return
        if image in self._pending:
            del self._pending[image], self._users[image]
        else:
            self._unused[image] = None
