from ._ops import ops

count = ops.count
tell = ops.tell
