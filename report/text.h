#ifndef STOWAGE_REPORT_TEXT_H_
#define STOWAGE_REPORT_TEXT_H_

// The report as text: a table of fixed width with each figure's formula, and the map of
// the arena.
//
//   std::cout << ToText(MakeReport(graph, plan));

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "planner/packing/problem.h"
#include "planner/plan.h"
#include "report/numbers.h"

namespace stowage {

/// The table of regions and figures, the ten largest buffers live at the peak, and
/// MemoryMap.
std::string ToText(const Report& report);

/// Only the regions and figures.
std::string SummaryTable(const Report& report);

/// Everything that is live at the peak, largest first, at most `limit` rows.
std::string PeakTable(const Report& report, size_t limit);

// Small text helpers for the printed forms.

/// `text` padded with spaces to `width` characters, or cut to it with "..." at its end.
std::string PadRight(std::string_view text, size_t width);
std::string PadLeft(std::string_view text, size_t width);

/// "[3, 17)".
std::string Interval(packing::Time lower, packing::Time upper);

/// `1234567` as "1,234,567".
std::string WithCommas(int64_t value);

/// `text` with & < > " ' as XML entities, control characters as spaces, and U+FFFD for
/// invalid UTF-8 bytes.
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
// A launch is an op, its results, an arrow and its operands. @32+16 are 16 bytes of the
// arena from address 32, @host:32+16 the same of host memory. `t of h` is a view or new
// content of h, `in place` marks a result in an operand's buffer, and
// `with scratch @64+16` is the kernel's workspace. Names are written as in the text form
// of graphs (ir/text.h), so any line can be parsed.

/// The stream of one run of `graph` by `plan`, with MakeStream's preconditions. The same
/// graph and plan give the same bytes.
std::string ToStreamText(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TEXT_H_
