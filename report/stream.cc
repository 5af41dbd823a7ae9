#include "report/stream.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/text_scanner.h"
#include "planner/lifetimes.h"
#include "planner/stream.h"
#include "report/format.h"

namespace stowage {
namespace {

std::string At(const StreamPlace& place) {
  if (!place.outside.empty()) {
    return StrCat("@outside:", place.address, "+", place.bytes, " at ",
                  NameText(place.outside));
  }
  return StrCat(place.on_host ? "@host:" : "@", place.address, "+",
                place.bytes);
}

std::string ValueText(const StreamValue& value) {
  return StrCat(NameText(value.name),
                value.root == value.name ? std::string()
                                         : StrCat(" of ", NameText(value.root)),
                " ", At(value.place), value.in_place ? " in place" : "");
}

std::string ListText(const std::vector<StreamValue>& values) {
  std::string out;
  for (const StreamValue& value : values) {
    out += StrCat(out.empty() ? "" : ", ", ValueText(value));
  }
  return out;
}

std::string LaunchText(const StreamEvent& event) {
  std::string out = StrCat(OpName(event.op), " ", ListText(event.results));
  if (!event.operands.empty()) out += StrCat(" <- ", ListText(event.operands));
  std::string_view with = " with scratch ";
  for (const StreamPlace& scratch : {event.scratch, event.host_scratch}) {
    if (scratch.bytes == 0) continue;
    out += StrCat(with, At(scratch));
    with = " and ";
  }
  return out;
}

std::string BodyText(const StreamEvent& event) {
  std::string out = StrCat("body ", NameText(event.body));
  if (event.kind == StreamEventKind::kLeave) return out;
  if (event.op == OpKind::kLoop) out += StrCat(", ", event.trips, " times");
  for (const StreamHanded& handed : event.handed) {
    out += StrCat(", ", NameText(handed.leaf), " to ", NameText(handed.output));
    if (handed.in_one_place) out += " in one place";
    if (handed.second.bytes > 0) {
      out += StrCat(" alternating with ", At(handed.second));
    }
  }
  return out;
}

std::string What(const StreamEvent& event) {
  switch (event.kind) {
    case StreamEventKind::kLaunch:
      return LaunchText(event);
    case StreamEventKind::kEnter:
    case StreamEventKind::kLeave:
      return BodyText(event);
    case StreamEventKind::kAllocate:
    case StreamEventKind::kKill:
      break;
  }
  std::string out = StrCat(RegionName(event.region), " ", NameText(event.name));
  const std::string& outside = event.place.outside;
  if (!outside.empty() && outside != event.name) {
    out += StrCat(" at ", NameText(outside));
  }
  return out;
}

// The columns of a line before the last.
struct Columns {
  std::string time, event, memory, address, bytes;
};

Columns ColumnsOf(const StreamEvent& event) {
  const std::string time = StrCat(event.time);
  const std::string name(StreamEventName(event.kind));
  if (event.kind != StreamEventKind::kAllocate &&
      event.kind != StreamEventKind::kKill) {
    return {time, name, "-", "-", "-"};
  }
  const char* const memory = !event.place.outside.empty() ? "outside"
                             : event.place.on_host        ? "host"
                                                          : "arena";
  return {time, name, memory, StrCat(event.place.address),
          StrCat(event.place.bytes)};
}

}  // namespace

std::string ToStreamText(const Graph& graph, const Plan& plan) {
  const std::vector<StreamEvent> events = MakeStream(graph, plan);
  const Columns titles = {"time", "event", "memory", "address", "bytes"};
  size_t time = titles.time.size();
  size_t memory = titles.memory.size();
  size_t address = titles.address.size();
  size_t bytes = titles.bytes.size();
  for (const StreamEvent& event : events) {
    const Columns columns = ColumnsOf(event);
    time = std::max(time, columns.time.size());
    memory = std::max(memory, columns.memory.size());
    address = std::max(address, columns.address.size());
    bytes = std::max(bytes, columns.bytes.size());
  }
  const auto line = [&](const Columns& columns, std::string_view what) {
    return StrCat(PadLeft(columns.time, time), "  ", PadRight(columns.event, 8),
                  "  ", PadRight(columns.memory, memory), "  ",
                  PadLeft(columns.address, address), "  ",
                  PadLeft(columns.bytes, bytes), "  ", what, "\n");
  };
  std::string out = StrCat("stream of ", QuotedText(graph.name()), ": arena ",
                           plan.arena_bytes(), " bytes, host ",
                           plan.host_bytes(), " bytes, slots of ",
                           plan.alignment, " bytes\n", line(titles, "what"));
  for (const StreamEvent& event : events) {
    out += line(ColumnsOf(event),
                StrCat(std::string(static_cast<size_t>(2 * event.depth), ' '),
                       What(event)));
  }
  return out;
}

}  // namespace stowage
