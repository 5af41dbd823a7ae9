#ifndef STOWAGE_REPORT_TEXT_H_
#define STOWAGE_REPORT_TEXT_H_

// The report for people: a table of fixed width with each figure's formula
// beside it, and the map of the arena.
//
//   std::cout << ToText(MakeReport(graph, plan));

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "planner/packing/problem.h"
#include "planner/plan.h"
#include "report/numbers.h"

namespace stowage {

/// The table of regions and figures, what lives at the peak (its ten largest
/// buffers), and MemoryMap.
std::string ToText(const Report& report);

/// The regions and figures alone.
std::string SummaryTable(const Report& report);

/// Everything that lives at the peak, largest first, at most `limit` rows.
std::string PeakTable(const Report& report, size_t limit);

// Small text helpers of the printed forms.

/// `text` filled with spaces to `width` characters, or cut to it with "..." at
/// its end.
std::string PadRight(std::string_view text, size_t width);
std::string PadLeft(std::string_view text, size_t width);

/// "[3, 17)".
std::string Interval(packing::Time lower, packing::Time upper);

/// `1234567` as "1,234,567".
std::string WithCommas(int64_t value);

/// `text` with & < > " ' as XML entities, control characters as spaces, and U+FFFD for bytes
/// that are no UTF-8.
std::string XmlEscaped(std::string_view text);

// The stream of a step (planner/stream.h) as text, one event a line.
//
//   stream of "step": arena 96 bytes, host 0 bytes, slots of 16 bytes
//   time  event     memory  address  bytes  what
//      0  allocate  arena         0     16  weights w
//      0  allocate  arena        16     16  io x
//      0  allocate  arena        32     16  activations h
//      0  launch    -             -      -  mul h @32+16 <- w @0+16, x @16+16
//
// A launch is an op, its results, an arrow and its operands. @32+16 are 16 bytes
// of the arena from address 32, @host:32+16 as many of the host's memory. `t of h`
// is a view or new content of h, `in place` marks a result in an operand's buffer,
// and `with scratch @64+16` is what the kernel may use beside its operands. Names
// are written as in the text form of graphs (ir/text.h), so a line can be taken
// apart again whatever they contain.

/// The stream of one run of `graph` by `plan`, which are as MakeStream wants
/// them. The same for the same graph and plan, byte for byte.
std::string ToStreamText(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TEXT_H_
