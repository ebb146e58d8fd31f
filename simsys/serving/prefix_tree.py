"""Reusable blocks of prompts by content, and their order of eviction.

Every block has an id of its tokens and all tokens before them, so prompts with equal prefixes form a tree. Its nodes
are stretches of consecutive blocks that have always been used together; a node is split where prompts diverge.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from itertools import repeat

Chain = Sequence[Hashable]
"""The ids of a prompt, in order."""


class Node:
    """A stretch of blocks, counted from the beginning of the prompt; without a chain, uncached blocks."""

    __slots__ = ("begin", "chain", "children", "end", "parent", "users")

    def __init__(self, chain: Chain, begin: int, end: int, parent: Node | None, users: int) -> None:
        self.chain = chain
        self.begin = begin
        self.end = end
        self.parent = parent
        self.children = 0
        """Nodes that follow this one."""
        self.users = users
        """Requests that hold blocks up to the end of this node, and nodes in use that follow it."""


NO_SCRAP = Node((), 0, 0, None, 0)


class PrefixTree:
    """The cached blocks, in use or not.

    Unused blocks are evicted in the order of release, the last of a prompt first, cached or not; blocks never used
    come first (vLLM v1's queue of free blocks).

    Args:
        num_blocks: Blocks in memory, all unused.
        block_size: Tokens of a block.
        id_tokens: Tokens per id of a chain, at least those of a block. A block belongs to the id of its
            last token.
    """

    def __init__(self, num_blocks: int, block_size: int, id_tokens: int) -> None:
        self.unused = num_blocks
        """Blocks that hold nothing; below 0, how many are to be given up before anything is looked up."""
        self._block_size, self._id_tokens = block_size, id_tokens
        self.index: dict[Hashable, Node] = {}
        """By id, the node with the last of its blocks that is cached."""
        self.changes = 0
        """How often ids have been added to the index or removed from it."""
        self._queue: OrderedDict[Node, None] = OrderedDict()
        self._scrap = NO_SCRAP  # the last queue entry, if obsolete

    @property
    def free_blocks(self) -> int:
        """Number of unused blocks."""
        return self.unused + sum(node.end - node.begin for node in self._queue)

    @property
    def cached_blocks(self) -> int:
        """Number of unused blocks in the cache."""
        self.reclaim(0)
        return sum(node.end - node.begin for node in self._queue if node.chain)

    def match(self, chain: Chain, limit: int, known: int = 0) -> int:
        """How many of the first `limit` blocks are cached, up to the first that is not; the first `known` ones are."""
        if self.unused < 0:
            self.reclaim(0)
        if limit <= known:
            return known
        index, block_size, id_tokens, ids = self.index, self._block_size, self._id_tokens, len(chain)
        first, last = ((known + 1) * block_size - 1) // id_tokens, (limit * block_size - 1) // id_tokens
        if last < ids:
            ids = last + 1
        if ids <= first or chain[first] not in index:
            return known
        if chain[ids - 1] not in index:
            found, missing = first + 1, ids
            while missing - found > 1:  # where a block is cached, so are all before it
                middle = (found + missing) // 2
                if chain[middle - 1] in index:
                    found = middle
                else:
                    missing = middle
            ids = found
        return min(index[chain[ids - 1]].end, ids * id_tokens // block_size, limit)

    def idle(self, chain: Chain, blocks: int) -> int:
        """Number of unused blocks among the first `blocks` blocks, all of which are cached."""
        idle, node = 0, self._at(chain, blocks)
        while node is not None and not node.users:
            idle += min(node.end, blocks) - node.begin
            node = node.parent
        return idle

    def before(self, chain: Chain, blocks: int, most: int) -> int:
        """Number of blocks, at most `most`, evicted before one of the first `blocks`, all of which are cached."""
        first, node = set[Node](), self._at(chain, blocks)
        while node is not None and not node.users:
            first.add(node)
            node = node.parent
        if not first:
            return most
        given = self.unused
        for node in self._queue:
            if node in first:
                given += max(0, node.end - blocks)
                break
            given += node.end - node.begin
            if given >= most:
                break
        return min(given, most)

    def hold(self, chain: Chain, blocks: int) -> tuple[Node | None, int]:
        """Use the first `blocks` blocks, all of which are cached; the node to release, and how many were idle."""
        node = self._at(chain, blocks)
        if node is None:
            return None, 0
        if node.end > blocks:
            node = self._cut(node, blocks)
        held, idle = node, 0
        parent: Node | None = node
        while parent is not None:
            parent.users += 1
            if parent.users > 1:
                break
            del self._queue[parent]
            idle += parent.end - parent.begin
            parent = parent.parent
        return held, idle

    def release(self, node: Node | None) -> int:
        """Use no longer what `hold` or `add` has returned; return how many blocks are idle now."""
        idle = 0
        while node is not None:
            node.users -= 1
            if node.users:
                break
            self._queue[node] = None
            self._scrap = NO_SCRAP
            idle += node.end - node.begin
            node = node.parent
        return idle

    def add(self, chain: Chain, parent: Node | None, end: int) -> Node:
        """Cache blocks after `parent`, up to `end`, for the request that holds `parent` and these blocks."""
        node = Node(chain, 0 if parent is None else parent.end, end, parent, 1)
        if parent is not None:
            parent.children += 1
        self._point(node, self._id_of(node.begin), self._id_of(end - 1) + 1)
        return node

    def forget(self, node: Node | None, end: int) -> Node | None:
        """Remove cached blocks beyond `end`, unless other requests use them; return the blocks to free."""
        while node is not None and node.end > end and node.users == 1 and not node.children:
            kept = max(node.begin, end)
            self._shorten(node, kept)
            if kept > node.begin:
                break
            node = node.parent
        return node

    def scrap(self, blocks: int) -> None:
        """Blocks are free and not in the cache."""
        if self._scrap.end:
            self._scrap.end += blocks
        elif blocks:
            self._scrap = Node((), 0, blocks, None, 0)
            self._queue[self._scrap] = None

    def reclaim(self, unused: int) -> None:
        """Evict blocks until a number of blocks is empty."""
        missing, queue = unused - self.unused, self._queue
        while missing > 0:
            node = next(iter(queue))
            size = node.end - node.begin
            blocks = missing if missing < size else size
            if node.chain:
                self.evict(node, node.end - blocks)
            else:
                node.end -= blocks
            if blocks == size:
                del queue[node]
            self.unused += blocks
            missing -= blocks

    def evict(self, node: Node, end: int) -> None:
        """Evict the blocks of a node from `end` on."""
        self._shorten(node, end)

    def _id_of(self, block: int) -> int:
        """The place in a chain of the id that a block belongs to."""
        return ((block + 1) * self._block_size - 1) // self._id_tokens

    def _at(self, chain: Chain, blocks: int) -> Node | None:
        """The node with the last of a number of blocks."""
        node = self.index[chain[self._id_of(blocks - 1)]] if blocks else None
        while node is not None and node.begin >= blocks:
            node = node.parent
        return node

    def _point(self, node: Node, first: int, end: int) -> None:
        self.index.update(zip(node.chain[first:end], repeat(node)))
        self.changes += 1

    def _cut(self, node: Node, end: int) -> Node:
        """Split a node; the head takes the LRU position of the request that caused the split."""
        head = Node(node.chain, node.begin, end, node.parent, int(node.users > 0))
        head.children = 1
        self._point(head, self._id_of(head.begin), self._id_of(end))
        node.begin, node.parent = end, head
        if not head.users:
            self._queue[head] = None  # `hold` removes it
        return head

    def _shorten(self, node: Node, end: int) -> None:
        """Let a node's last blocks be found no more."""
        chain, index, block_size, id_tokens = node.chain, self.index, self._block_size, self._id_tokens
        first = ((end + 1) * block_size - 1) // id_tokens
        if first * id_tokens // block_size < end:  # the first blocks of this id remain
            if end == node.begin and node.parent is not None:
                index[chain[first]] = node.parent
            first += 1
        gone = map(index.__delitem__, chain[first : (node.end * block_size - 1) // id_tokens + 1])
        deque(gone, maxlen=0)  # a loop in C, since these are many
        self.changes += 1
        node.end = end
        if end == node.begin and node.parent is not None:
            node.parent.children -= 1
