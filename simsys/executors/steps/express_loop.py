"""The loop of a replica's steps: run after run, with all that ends, begins and arrives between them.

It does what `Jump`, `Replica`, `Source` and the modules that say so (`inlined`) do, in the same order and with the
same arithmetic, so that all times are equal to the last bit; what is rare, it leaves to them. It may exist since the
work of a request, some additions, cost less than the hundred calls on the way to it. Here all is in local variables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from heapq import heappop, heappush
from math import inf
from sys import maxsize
from typing import TYPE_CHECKING, Any

from simpy.events import URGENT

from simsys.executors.steps.signals import CLOSE, GROWN, LEFT, NEVER_AGAIN
from simsys.executors.steps.step_log import MANY, NO_NOTE, stretches
from simsys.model.batch import Batch
from simsys.probes import as_one
from simsys.serving.kv_cache import blocks_due
from simsys.serving.phases import Chunk
from simsys.serving.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from simsys.executors.steps.express import Express


def loop(express: Express) -> Generator[int, Any, None]:
    """The loop. When something else comes before a run ends, it yields, and is sent what has come.

    That is the tick, a request, `GROWN` or, to settle, None or `CLOSE`. It yields `LEFT` when others have to go on.
    What it has not written back costs nothing, so it is written back only when somebody asks.
    """
    jump, replica, source = express.jump, express.replica, express.source
    delivers, tick = express.delivers, express.tick
    env, probes, device, tally, cost = jump._env, jump._probes, jump._device, jump._tally, jump._cost
    even, priority, waking, queue, on_end = jump._even, jump._priority, replica._waking, env._queue, replica.on_end
    scheduler, kv, sequences = replica.scheduler, replica.kv, replica.sequences
    decode: Any = replica._decode
    limits, whole, decode_costs = scheduler.options, scheduler.reserves_prompts, express.decode_costs
    seats, budget, threshold = limits.max_num_seqs, limits.max_num_batched_tokens, limits.long_prefill_token_threshold
    waiting, running, prefilling = scheduler.waiting, scheduler.running, scheduler.prefilling
    ends, joined, remainder, block_due = decode.ends, decode.joined, decode.remainder, decode.block_due
    prompts, outputs = sequences.prompt_tokens, sequences.output_tokens
    computed, generated = sequences.computed_tokens, sequences.generated_tokens
    held, block_size, num_blocks, shares = kv.held, kv.block_size, kv.num_blocks, kv.shares
    note_growth: Callable[[int], object] = id if kv.growth is None else kv.growth.append
    tree: Any = kv.tree if isinstance(kv, PrefixCache) else None
    per_step_s, per_sequence_s, beside = replica._per_step_s, replica._per_sequence_s, jump._beside
    longest = min(replica._max_context_tokens or inf, replica._surely_fits)  # a request that is surely accepted
    log, logs, entries = jump._log, bool(probes.steps) or replica._notes is not None, list[float]()
    step_seconds, collective_s, costs_of = cost.step_seconds, jump._collective_s, express.costs_of
    arrival_s, requests, late_s = source._arrival_s, len(source._arrival_s), source._late_s
    arrived, look_up, admit = probes.request_arrived, as_one(probes.prefix_lookup), as_one(probes.request_admitted)
    first_token, resume = as_one(probes.request_first_token), as_one(probes.request_resumed)
    finish = as_one(probes.request_finished)

    # What changes, which is written back before others act; `kv.free_blocks` at once, as probes may look at it.
    now_s, first, end = env._now, jump._from, jump._to
    anchor_s, started_s, due_s, ended_s = jump._anchor_s, jump._started_s, now_s, now_s
    times, noted = jump._times, True  # what has begun before
    first_s, growth_s, idle_s = times.first_s, times.growth_s, times.idle_s
    begun_s = first_s + growth_s * first
    tokens: Any = jump._tokens
    sharing, context, host_s, more_pairs = jump._sequences, jump._context, jump._host_s, jump._more_pairs
    mixed: Any = jump._batch
    chunks: Any = replica._chunks
    complete = [each for each, count in chunks if count == sequences.remaining_prompt(each)]
    decoding, left, busy_s = replica._decoding, 0, device.busy_s
    size, cached, step, growing = decode.size, decode.cached_tokens, decode.step, decode.growing
    free, taken, peak, reserved = kv.free_blocks, kv.taken_blocks, kv.peak_blocks, kv.reserved_blocks
    grown_blocks, ahead, settled, armed_s, number, serial = 0, True, False, inf, 0, env._eid
    coming_s, coming = source.take_over() if delivers else inf, source._next
    scheduler.preempted = False
    then: Callable[[], None] | None = None
    event: Any = tick  # what has come

    while True:
        while True:
            # Until the run ends: as Jump._goes_on, Source._deliver, Replica.submit and ChunkedPrefill.wants.
            while event is not tick:
                if coming_s <= due_s and coming_s < inf and (now_s == coming_s or not queue or queue[0][0] > coming_s):
                    env._now = now_s = coming_s
                    env.priority = URGENT
                    event, coming = coming, coming + 1
                    for hook in arrived:
                        hook(event, now_s - late_s)
                    coming_s = arrival_s[coming] if coming < requests else inf
                elif ahead and due_s < coming_s and (not queue or queue[0][0] > due_s):
                    env._now = due_s
                    break
                else:
                    if due_s != armed_s:
                        if armed_s == inf:
                            number = next(serial)
                        armed_s = due_s
                        heappush(queue, (due_s, priority if end > first else waking, number, tick))
                    if delivers:
                        source.give_back(coming)
                    event = yield grown_blocks
                    now_s = env._now
                    ahead = event is tick
                    if delivers:
                        coming_s, coming = source.take_over() if ahead else inf, source._next
                    if ahead:
                        if now_s == due_s:
                            armed_s = inf
                        else:
                            event = -1  # the run was cut
                        continue
                    if event is None or event is CLOSE:
                        break
                    if event is GROWN:  # as Replica._grown_blocks and Jump.passed
                        grown_blocks = 0
                        if end - first > 1 and (chunks or (growing and decoding)):
                            steps = times.passed(anchor_s, now_s, first, end, now=env.priority >= priority)
                            grown_blocks = blocks_due(block_due, step, steps, growing) if decoding else 0
                            for request, count in chunks:
                                grown_blocks += kv.missing_blocks(request, computed[request] + count * (steps + 1))
                        continue
                    settled = False
                if prompts[event] + outputs[event] <= longest or replica.accepts(event):
                    waiting.append(event)
                    if end == first:
                        due_s = now_s
                    elif left > 1 and waiting[0] == event and len(running) < seats and tokens < budget:
                        last, end = end, times.boundary(anchor_s, now_s, first + 1, end)
                        due_s = anchor_s + (end * first_s + growth_s * (end * (end - 1) * 0.5))
                        if times.kinks:
                            due_s = anchor_s + times.elapsed(end)
                        if due_s == now_s and end < last and env.priority >= priority:
                            end += 1
                            due_s = anchor_s + times.elapsed(end)
            if event is None or event is CLOSE:
                break
            event, now_s, settled = -1, due_s, False

            # The run ends: as Jump._end; without steps, it was a rest.
            steps = end - first
            if steps:
                busy_s += now_s - started_s - steps * idle_s if not times.work else times.computing_s(first, end, 0.0)
                if tally is not None:
                    tally.passed(jump._op, Batch(*mixed[:2]) if mixed else Batch(tokens, tokens), steps)
                if noted or times.kinks:
                    for run in stretches(tokens, sharing, started_s, first, steps, times):
                        entries += (*run, free, NO_NOTE if noted else taken)
                        noted = True
                    noted = False
                elif logs:
                    entries += (started_s, steps, sharing, tokens - sharing, begun_s, growth_s, free, taken)
                first, ended_s = end, now_s
                if chunks and steps > 1:
                    kv.peak_blocks = peak
                    replica._hold(chunks, steps)
                    free, peak, reserved = kv.free_blocks, kv.peak_blocks, 0

            # Every decoding sequence has its tokens: as LLMDecode.finish and PagedKVCache.release.
            if decoding:
                if growing:
                    place = step % block_size
                    missing = block_due[place]
                    if place + steps > block_size:
                        missing = blocks_due(block_due, step, steps, growing)
                    elif steps > 1:
                        missing = sum(block_due[place : place + steps])
                    if missing:
                        kv.free_blocks = free = free - missing
                        if shares:
                            tree.unused -= missing
                        taken += missing
                        if num_blocks - free > peak:
                            peak = num_blocks - free
                cached, step = cached + size * steps, step + steps
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
                            note_growth(~(step * block_size + due))
                        size -= 1
                        generated[request] = output = outputs[request]
                        length = prompts[request] + output - 1
                        cached -= length
                        if shares:
                            kv.release(request, length)
                            free = kv.free_blocks
                        else:
                            blocks, own = -(-length // block_size), held.pop(request, 0)
                            kv.free_blocks = free = free + (own if own > blocks else blocks)
                    for request in ended:
                        del running[request]
                        finish(request, now_s)
                        if on_end is not None:
                            on_end(request)

            # Prompts get on: as LLMPrefill.finish, Replica._advance and LLMDecode.add.
            if chunks:
                if len(chunks) > len(complete):
                    for request, count in chunks:
                        computed[request] += count * steps
                for request in complete:
                    if prefilling:
                        prefilling.pop(request, None)
                    output, length, made = outputs[request], prompts[request], generated[request]
                    if made:
                        length += made
                    computed[request] = length
                    generated[request] = made = made + 1
                    (first_token if made == 1 else resume)(request, now_s)
                    if made < output:
                        joined[request] = step
                        size += 1
                        cached += length
                        if held[request] * block_size < prompts[request] + output - 1:
                            remainder[request] = due = (step - length) % block_size
                            block_due[due] += 1
                            growing += 1
                            note_growth(step * block_size + due)
                        heappush(ends, (step + output - made, request, step))
                    else:
                        kv.release(request, length)
                        free = kv.free_blocks
                        del running[request]
                        replica._finished(request)
                if len(entries) >= MANY:
                    log.take(entries, kv)

            # The policy chooses: as Scheduler.make_room, ChunkedPrefill.schedule, Scheduler.extend and admit.
            chunks = []
            if waiting or prefilling or size > free:
                reserved = block_due[step % block_size]
                if reserved > free or (shares and prefilling):
                    then = replica._next  # somebody may have to be preempted
                    break
                total, logits, pairs, prompt_context, repeats = size, size, 0.0, 0, maxsize
                complete = []
                for request in prefilling:
                    length = computed[request]
                    count = remaining = prompts[request] + generated[request] - length
                    if 0 < threshold < count:
                        count = threshold
                    if count > budget - total:
                        count = budget - total
                    if count > 0:
                        kv.reserved_blocks, kv.peak_blocks = reserved, peak
                        if not kv.grow(request, length + count):
                            then = replica._next  # likewise; the blocks that have been taken here stand
                            break
                        free, peak = kv.free_blocks, kv.peak_blocks
                        chunks.append((request, count))
                        total += count
                        pairs += count * length + count * (count + 1) / 2
                        prompt_context += length
                        if count == remaining:
                            complete.append(request)
                            logits += 1
                        elif (remaining - 1) // count < repeats:
                            repeats = (remaining - 1) // count
                if then is not None:
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
                    length = 0
                    if whole and count < remaining and scheduler.admission_blocks(request, count) > free - reserved:
                        break
                    if shares:
                        kv.reserved_blocks, kv.peak_blocks = reserved, peak
                        length, target = kv.cached_tokens(request), remaining
                        remaining -= length
                        if count > remaining:
                            count = remaining
                        if not kv.start(request, length + count, cached=length):
                            break
                        free, peak = kv.free_blocks, kv.peak_blocks
                        pairs += count * length
                        prompt_context += length
                    else:
                        blocks = -(-count // block_size)
                        if blocks > free - reserved:
                            break
                        held[request] = blocks
                        kv.free_blocks = free = free - blocks
                        if num_blocks - free > peak:
                            peak = num_blocks - free
                    waiting.popleft()
                    running[request] = None
                    admit(request, now_s)
                    if shares:
                        look_up(request, length, target, now_s)
                        computed[request] = length
                    chunks.append((request, count))
                    total += count
                    pairs += count * (count + 1) / 2
                    if count == remaining:
                        complete.append(request)
                        logits += 1
                    else:
                        prefilling[request] = None
                        if (remaining - 1) // count < repeats:
                            repeats = (remaining - 1) // count

            # The next run begins: as Replica._start_with_prompts and Jump.run …
            decoding = size
            if chunks:
                length, left, own_s = cached + size, 1, per_step_s + per_sequence_s * logits
                before_s, least_s = (0.0, own_s) if beside else (own_s, 0.0)
                if repeats > 1 and not complete:
                    left = repeats if size == 0 else min(repeats, decode.steps_left() + decode.step - step)
                    # It is told here only if its blocks surely suffice, and for who arrives meanwhile, too.
                    if left > 1 and (shares or (total * left + budget) // block_size + size + len(chunks) >= free):
                        then = partial(replica._start_with_prompts, [Chunk(*each) for each in chunks])
                        break
                mixed = total, logits, pairs, prompt_context, length, size
                if left > 1:  # after which another batch comes: one sequence more or fewer, or a complete prompt
                    more_pairs = float(sum([count * count for _, count in chunks]))
                    times = cost.step_times(Batch(*mixed), more_pairs, before_s, collective_s).at_least(least_s)
                    due_s, replica._began_s, host_s = now_s + times.elapsed(left), now_s, own_s
                else:
                    compute_s, idle_s = step_seconds(total, logits, pairs, prompt_context, length, size, collective_s)
                    even.growth_s, even.idle_s, times, host_s = 0.0, idle_s + before_s, even, NEVER_AGAIN
                    even.first_s = compute_s + even.idle_s
                    if even.first_s < least_s:
                        times = even.at_least(least_s)
                    due_s = now_s + times.first_s
                first_s, growth_s, idle_s = times.first_s, times.growth_s, times.idle_s
                tokens, sharing, context, begun_s = total, size, 0, first_s
                anchor_s, started_s, first, end = now_s, now_s, 0, left
            # … or _start_decoding and Jump.decode.
            elif size:
                if len(ends) != size:
                    decode.steps_left()  # takes out who was preempted
                left = ends[0][0] - step
                length = cached + size
                costs = decode_costs.get(size) or costs_of(size)
                steepest_from, fixed_s, per_token_s, more_s, before_s, others_s, least_s, own_s = costs
                if (size * left > free and left > 1 and size * (left // block_size + 1) > free) or (
                    (shares and waiting and left > 1 and len(running) < seats)
                    and kv.loses(waiting[0], blocks_due(block_due, step, left - 1, growing))
                ):
                    then = replica._start_decoding
                    break
                if size == tokens and own_s == host_s and length == context + first * size:
                    begun_s = first_s + growth_s * first
                else:
                    times = even
                    if length >= steepest_from:
                        even.first_s = fixed_s + per_token_s * length + before_s
                        even.growth_s, even.idle_s = more_s, others_s
                    else:
                        times = cost.step_times(Batch(size, size, 0.0, 0, length, size), 0.0, before_s, collective_s)
                    if times.first_s < least_s:
                        times = times.at_least(least_s)
                    begun_s, growth_s, idle_s = times.first_s, times.growth_s, times.idle_s
                    first_s, tokens, sharing, context, host_s = begun_s, size, size, length, own_s
                    mixed, more_pairs, anchor_s, first = None, 0.0, now_s, 0
                started_s, end = now_s, first + left
                due_s = anchor_s + (end * first_s + growth_s * (end * (end - 1) * 0.5))
                if times.kinks:
                    due_s = anchor_s + times.elapsed(end)
            # … or it rests until the next request comes.
            else:
                if logs:
                    entries += (now_s, 0, 0, 0, 0.0, 0.0, free, taken)
                left, due_s, noted = 0, inf, False

        if then is not None or event is CLOSE:
            log.take(entries, kv)
            if event is CLOSE and end > first and not noted and replica._notes is not None:
                replica._notes += (started_s, free, taken, sharing)
        event = -1
        if settled:
            continue
        settled = True
        prefilling.update(dict.fromkeys(complete if chunks else ()))
        device.free_at_s, device.busy_s = ended_s, busy_s
        jump._from, jump._to, jump._times = first, end, times
        if times is even:
            even.first_s, even.growth_s, even.idle_s = first_s, growth_s, idle_s
        jump._anchor_s, jump._started_s, jump._due_s = anchor_s, started_s, due_s
        replica._chunks, replica._decoding, replica._left, replica._tokens = chunks, decoding, left, tokens
        decode.size, decode.cached_tokens, decode.step, decode.growing = size, cached, step, growing
        kv.taken_blocks, kv.peak_blocks, kv.reserved_blocks = taken, peak, reserved
        jump._tokens, jump._sequences, jump._context, jump._host_s = tokens, sharing, context, host_s
        jump._batch, jump._more_pairs = Batch(*mixed) if mixed else None, more_pairs
        if then is not None:
            source.give_back(coming)
            env.priority = priority
            replica._left = 0
            express.close()
            jump._ahead = True
            then()
            yield LEFT
