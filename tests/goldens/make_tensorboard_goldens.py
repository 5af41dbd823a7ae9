"""Writes events.tfevents: what TensorBoard's own writer makes of three steps.

    pip install tensorboard==2.21.0
    python3 tests/goldens/make_tensorboard_goldens.py

tests/report/tensorboard_test.cc has the same calls.
"""

import io
import pathlib

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def scalars(seconds, step, values):
    return Event(wall_time=seconds, step=step, summary=Summary(
        value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values]))


def main():
    events = [
        Event(wall_time=1700000000.25, file_version="brain.Event:2"),
        scalars(1700000001.5, 1, [("loss", 2.25), ("lr", 1e-3)]),
        scalars(1700000002.5, 300, [("loss", float("inf"))]),
        Event(wall_time=1700000003.0, step=200,
              session_log=SessionLog(status=SessionLog.START)),
        scalars(1700000004.0, 200, [("validation_loss", -0.5), ("arena_bytes", 3e9)]),
    ]
    out = io.BytesIO()
    writer = RecordWriter(out)
    for event in events:
        writer.write(event.SerializeToString())
    pathlib.Path(__file__).with_name("events.tfevents").write_bytes(out.getvalue())


if __name__ == "__main__":
    main()
