"""A replica's steps in one loop: run after run, with all that ends, begins and arrives between them.

It does what `Jump`, `Replica`, `Source` and the modules that say so (`inlined`) do, in the same order and with the
same arithmetic, so that all times are equal to the last bit; what is rare, it leaves to them. It may exist since the
work of a request, some additions, cost less than the hundred calls on the way to it. Here all is in local variables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from simsys.executors.step_log import NUMBERS
from simsys.model.batch import Batch
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.phases import Chunk
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.queues import OrderedQueue
from simsys.serving.replica import Replica
from simsys.serving.source import Source, inlined

if TYPE_CHECKING:
    from simsys.executors.steppers import Jump

NEVER_AGAIN = -1.0
"""Host time of a step that no other follows evenly."""

LIMITS = ("max_num_seqs", "max_num_batched_tokens", "long_prefill_token_threshold")
QUEUES, CACHES = (deque, OrderedQueue), (PagedKVCache, PrefixCache)


def express(jump: Jump, replica: Replica, source: Source) -> Express | None:
    """The loop for a replica, if all its parts are known here."""
    scheduler, kv = replica.scheduler, replica.kv
    if type(replica) is not Replica or replica.hand_over is not None or replica._refuses is not None:
        return None
    if type(kv) not in CACHES or scheduler.swap is not None or type(scheduler.waiting) not in QUEUES:
        return None
    known = all(map(inlined, (scheduler, scheduler.prefill, scheduler.decode)))
    return Express(jump, replica, source) if known else None


class Express:
    """Runs of steps of a replica, with its stepper and the source of all requests."""

    def __init__(self, jump: Jump, replica: Replica, source: Source) -> None:
        self._jump, self._replica, self._source = jump, replica, source
        self._delivers = source.delivers_only_to(replica)
        self._loop: Iterator[None] | None = None

    def go(self) -> bool:
        """End the run that is due now, and those that follow as long as nothing else comes before they end.

        Returns:
            Whether it has: not if the run is one that has to be ended elsewhere.
        """
        if self._loop is None:
            jump = self._jump
            single = not self._replica._chunks or jump._host_s == NEVER_AGAIN
            if not single or jump._probes.operation:
                return False
            self._loop = self._runs()
        if next(self._loop, True):
            self._loop = None
        return True

    def _runs(self) -> Iterator[None]:
        """The loop: it yields when something else comes before a run ends, and ends where others have to go on."""
        jump, replica, source = self._jump, self._replica, self._source
        env, probes, device, tally, cost = jump._env, jump._probes, jump._device, jump._tally, jump._cost
        even, priority, queue, tick = jump._even, jump._priority, env._queue, jump._tick
        scheduler, kv, sequences = replica.scheduler, replica.kv, replica.sequences
        decode: Any = replica._decode
        seats, budget, threshold = attrgetter(*LIMITS)(scheduler.options)
        waiting, running, prefilling = scheduler.waiting, scheduler.running, scheduler.prefilling
        ends, joined, remainder, block_due = decode.ends, decode.joined, decode.remainder, decode.block_due
        prompts, outputs = sequences.prompt_tokens, sequences.output_tokens
        computed, generated = sequences.computed_tokens, sequences.generated_tokens
        held, block_size, num_blocks, shares, grown = kv.held, kv.block_size, kv.num_blocks, kv.shares, kv.growth
        per_step_s, per_sequence_s, on_end = replica._per_step_s, replica._per_sequence_s, replica.on_end
        longest_context, most_tokens = replica._max_context_tokens or inf, replica._surely_fits
        log, runs, logs, notes = jump._log, jump._log.runs, bool(probes.steps), replica._notes
        step_costs, decode_costs, step_seconds = cost.kept, jump._decode_costs, cost.step_seconds
        arrival_s, requests, late_s = source._arrival_s, len(source._arrival_s), source._late_s

        # What changes, which is written back before others act; `kv.free_blocks` at once, as probes may look at it.
        now_s, first, end = env._now, jump._from, jump._to
        anchor_s, started_s, due_s, ended_s = jump._anchor_s, jump._started_s, now_s, now_s
        times = jump._times
        first_s, growth_s, idle_s = times.first_s, times.growth_s, times.idle_s
        begun_s = first_s + growth_s * first
        tokens: Any = jump._tokens
        sharing, context, host_s = jump._sequences, jump._context, jump._host_s
        mixed: Any = jump._batch
        chunks: Any = replica._chunks
        complete = [each for each, count in chunks if computed[each] + count == prompts[each] + generated[each]]
        decoding, left, busy_s = replica._decoding, 0, device.busy_s
        size, cached, step, growing = decode.size, decode.cached_tokens, decode.step, decode.growing
        free, taken, peak, reserved = kv.free_blocks, kv.taken_blocks, kv.peak_blocks, kv.reserved_blocks
        coming_s = source.take_over() if self._delivers else inf
        scheduler.preempted = False
        then: Callable[[], None] | None

        while True:
            while True:
                # The run ends: as Jump._end; without steps, it was a rest.
                steps = end - first
                if steps:
                    ended_s = now_s
                    busy_s += now_s - started_s - steps * idle_s
                    if tally is not None:
                        tally.passed(jump._op, Batch(*mixed[:2]) if mixed else Batch(tokens, tokens), steps)
                    if times.kinks and logs:
                        log.add(tokens, sharing, started_s, first, steps, times)
                    elif logs:
                        runs += (started_s, steps, sharing, tokens - sharing, begun_s, growth_s)
                    first = end

                # Every decoding sequence has its tokens: as LLMDecode.finish and PagedKVCache.release.
                if decoding:
                    if growing:
                        place = step % block_size
                        if steps == 1:
                            missing = block_due[place]
                        else:
                            last = place + steps % block_size
                            missing = steps // block_size * growing + sum(block_due[place:last])
                            if last > block_size:
                                missing += sum(block_due[: last - block_size])
                        if missing:
                            if shares:
                                kv.take_for_decode(missing)
                                free = kv.free_blocks
                            else:
                                kv.free_blocks = free = free - missing
                            taken += missing
                            if num_blocks - free > peak:
                                peak = num_blocks - free
                    cached += size * steps
                    step += steps
                    if ends[0][0] <= step:
                        ended = []
                        while ends and ends[0][0] <= step:
                            _, request, since = heappop(ends)
                            if joined.get(request) != since:
                                continue  # it was preempted
                            ended.append(request)
                            del joined[request]
                            due = remainder.pop(request, None)
                            if due is not None:
                                block_due[due] -= 1
                                growing -= 1
                                if grown is not None:
                                    grown.append(~(step * block_size + due))
                            size -= 1
                            generated[request] += step - since
                            length = computed[request] + step - since
                            cached -= length
                            if shares:
                                kv.release(request, length)
                                free = kv.free_blocks
                            else:
                                blocks, own = -(-length // block_size), held.pop(request, 0)
                                kv.free_blocks = free = free + (own if own > blocks else blocks)
                        for request in ended:
                            del running[request]
                            for hook in probes.request_finished:
                                hook(request, now_s)
                            if on_end is not None:
                                on_end(request)

                # Prompts get on: as LLMPrefill.finish, Replica._advance and LLMDecode.add.
                if chunks:
                    for request, count in chunks:
                        computed[request] += count
                    for request in complete:
                        del prefilling[request]
                        generated[request] = made = generated[request] + 1
                        output, length = outputs[request], computed[request]
                        if made == 1:
                            computed[request] = prompts[request]  # equal, but one number less in memory
                        for hook in probes.request_first_token if made == 1 else probes.request_resumed:
                            hook(request, now_s)
                        if made < output:
                            joined[request] = step
                            size += 1
                            cached += length
                            if held[request] * block_size < prompts[request] + output - 1:
                                remainder[request] = due = (step - length) % block_size
                                block_due[due] += 1
                                growing += 1
                                if grown is not None:
                                    grown.append(step * block_size + due)
                            heappush(ends, (step + output - made, request, step))
                        else:
                            kv.release(request, length)
                            free = kv.free_blocks
                            del running[request]
                            replica._finished(request)
                    if len(runs) >= NUMBERS:
                        log.tell()

                # The policy chooses: as Scheduler.make_room, ChunkedPrefill.schedule, Scheduler.extend and admit.
                chunks = []
                if waiting or prefilling or size > free:
                    reserved = block_due[step % block_size]
                    if reserved > free or (shares and prefilling):
                        then = replica._next  # somebody may have to be preempted
                        break
                    total, logits, pairs, prompt_context, single = size, size, 0.0, 0, False
                    complete, scarce = [], False
                    for request in prefilling:
                        length = computed[request]
                        count = remaining = prompts[request] + generated[request] - length
                        if 0 < threshold < count:
                            count = threshold
                        if count > budget - total:
                            count = budget - total
                        if count > 0:
                            blocks = -(-(length + count) // block_size) - held[request]
                            if blocks > 0:
                                if blocks > free - reserved:
                                    scarce = True
                                    break
                                held[request] += blocks
                                kv.free_blocks = free = free - blocks
                                if num_blocks - free > peak:
                                    peak = num_blocks - free
                            chunks.append((request, count))
                            total += count
                            pairs += count * length + count * (count + 1) / 2
                            prompt_context += length
                            if count == remaining:
                                complete.append(request)
                                logits += 1
                            elif (remaining - 1) // count <= 1:
                                single = True
                    if scarce:
                        then = replica._next  # likewise; the blocks that have been taken here stand
                        break
                    while waiting and len(running) < seats:
                        request = waiting[0]
                        count = remaining = prompts[request] + generated[request]
                        if 0 < threshold < count:
                            count = threshold
                        if count > budget - total:
                            count = budget - total
                            if count <= 0:
                                break
                        if shares:
                            kv.reserved_blocks = reserved
                            chunk = scheduler.admit(request, count)
                            if chunk is None:
                                break
                            free, peak, count, length = kv.free_blocks, kv.peak_blocks, chunk.tokens, computed[request]
                            remaining -= length
                            pairs += count * length
                            prompt_context += length
                        else:
                            blocks = -(-count // block_size)
                            if blocks > free - reserved:
                                break
                            waiting.popleft()
                            held[request] = blocks
                            kv.free_blocks = free = free - blocks
                            if num_blocks - free > peak:
                                peak = num_blocks - free
                            running[request] = prefilling[request] = None
                            for hook in probes.request_admitted:
                                hook(request, now_s)
                            computed[request] = 0
                        chunks.append((request, count))
                        total += count
                        pairs += count * (count + 1) / 2
                        if count == remaining:
                            complete.append(request)
                            logits += 1
                        elif (remaining - 1) // count <= 1:
                            single = True

                # The next run begins: as Replica._start_with_prompts and Jump.run …
                if chunks:
                    if not (complete or single):
                        then = partial(replica._start_with_prompts, [Chunk(*each) for each in chunks])
                        break
                    if notes is not None:
                        notes += (now_s, free, taken, size)
                    length = cached + size
                    mixed = total, logits, pairs, prompt_context, length, size
                    costs = step_costs.get((total, logits, True, size == 1))
                    if costs is None:
                        costs = cost.step_costs(total, logits, True, jump._collective_s, alone=size == 1)
                    times, growth_s = even, 0.0
                    times.idle_s = idle_s = costs.exchange_s + (per_step_s + per_sequence_s * logits)
                    begun_s = first_s = step_seconds(costs, pairs, prompt_context, length, size) + idle_s
                    times.first_s, times.growth_s = first_s, growth_s
                    tokens, context, host_s = total, 0, NEVER_AGAIN
                    anchor_s = started_s = now_s
                    first = 0
                    end = left = 1
                    sharing = decoding = size
                    due_s = now_s + first_s
                # … or _start_decoding and Jump.decode.
                elif size:
                    if len(ends) != size:
                        decode.steps_left()  # takes out who was preempted
                    left = ends[0][0] - step
                    own_s, length = per_step_s + per_sequence_s * size, cached + size
                    steepest_from, fixed_s, per_token_s, exchange_s = decode_costs.get(size) or jump._costs_of(size)
                    if left > 1 and size * (left // block_size + 1) > free:
                        then = replica._start_decoding
                        break
                    if notes is not None:
                        notes += (now_s, free, taken, size)
                    started_s = now_s
                    if size == tokens and own_s == host_s and length == context + first * size:
                        begun_s = first_s + growth_s * first
                    else:
                        if length >= steepest_from:
                            times = even
                            times.first_s = fixed_s + per_token_s * length + own_s
                            times.growth_s, times.idle_s = per_token_s * size, exchange_s + own_s
                        else:
                            batch = Batch(size, size, 0.0, 0, length, size)
                            times = cost.step_times(batch, 0.0, own_s, jump._collective_s)
                        begun_s = first_s = times.first_s
                        growth_s, idle_s = times.growth_s, times.idle_s
                        mixed, context, host_s = None, length, own_s
                        sharing = tokens = size
                        anchor_s = now_s
                        first = 0
                    end = first + left
                    decoding = size
                    if times.kinks:
                        due_s = anchor_s + times.elapsed(end)
                    else:
                        due_s = anchor_s + (end * first_s + growth_s * (end * (end - 1) * 0.5))
                # … or it rests until the next request comes.
                elif coming_s == inf:
                    then = replica._start_decoding
                    break
                else:
                    if notes is not None:
                        notes += (now_s, free, taken, 0)
                    decoding, due_s = 0, inf

                # Until it ends: as Jump._goes_on, Source._deliver, Replica.submit and ChunkedPrefill.wants.
                while coming_s <= due_s or (queue and queue[0][0] <= due_s):
                    if coming_s == inf or (queue and queue[0][0] <= coming_s and env._now < coming_s):
                        if queue and queue[0][3] is tick:
                            heappop(queue)  # a run that was cut
                            continue
                        then = None if end > first else partial(replica.rest, asked=due_s < inf)
                        break
                    env._now = coming_s
                    request = source._next
                    source._next = request + 1
                    source._free -= 1
                    for hook in probes.request_arrived:
                        hook(request, coming_s - late_s)
                    length = prompts[request] + outputs[request]
                    if (length <= longest_context and length <= most_tokens) or replica.accepts(request):
                        waiting.append(request)
                        if end == first:
                            due_s = coming_s
                        elif left > 1 and waiting[0] == request and len(running) < seats and tokens < budget:
                            end = times.boundary(anchor_s, coming_s, first + 1, end)
                            due_s = anchor_s + times.elapsed(end)
                    request += 1
                    coming_s = arrival_s[request] if request < requests else inf
                else:
                    now_s = env._now = due_s
                    continue
                break

            if self._delivers:
                source.give_back()
            env.priority = priority
            device.free_at_s, device.busy_s = ended_s, busy_s
            jump._from, jump._to, jump._times = first, end, times
            jump._anchor_s, jump._started_s, jump._due_s = anchor_s, started_s, due_s
            replica._chunks, replica._decoding = chunks, decoding
            replica._left, replica._tokens = left, tokens
            decode.size, decode.cached_tokens, decode.step, decode.growing = size, cached, step, growing
            kv.taken_blocks, kv.peak_blocks, kv.reserved_blocks = taken, peak, reserved
            jump._tokens, jump._sequences, jump._context, jump._host_s = tokens, sharing, context, host_s
            jump._batch, jump._more_pairs = Batch(*mixed) if mixed else None, 0.0
            if then is not None:
                replica._left = 0
                then()
                return
            yield
            end, now_s = jump._to, env._now  # somebody may have cut the run; nothing else has changed
            coming_s = source.take_over() if self._delivers else inf
