#ifndef STOWAGE_REPORT_TEXT_H_
#define STOWAGE_REPORT_TEXT_H_

// The report as text: a table of fixed width with each figure's formula, the map of the
// arena, and the stream of a step, one event a line.
//
//   std::cout << ToText(MakeReport(graph, plan));
//
//   stream of "step": arena 96 bytes, host 0 bytes, slots of 16 bytes
//   time  event     memory  address  bytes  what
//      0  allocate  arena         0     16  weights w
//      0  allocate  arena        16     16  io x
//      0  allocate  arena        32     16  activations h
//      0  launch    -             -      -  mul h @32+16 <- w @0+16, x @16+16

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

struct MemoryMapOptions {
  int columns = 64;  // maximum number of cells: no more than there are nodes
  int rows = 24;
  int letters = 16;  // largest buffers that get a letter, at most 26
                     // (the legend omits those too small to be seen)
};

/// The arena as a character map: the y axis is the address, the x axis is time, with a
/// letter for each of the largest buffers and one sign for all others.
///
///   400 B | .AAAA
///   300 B | .AAAA      A  h1     200 B  [1, 5)  activations
///   200 B | ioooo      B  ...
///   100 B | wwwww
///
/// A cell is a range of addresses and times and shows the buffer that takes most of it; '.'
/// if most of it is free. With the legend; lines of at most 80 characters with the default
/// options. Empty for an empty arena or schedule. O(cells covered by buffers).
std::string MemoryMap(const Report& report,
                      const MemoryMapOptions& options = {});

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

/// The stream (planner/stream.h) of one run of `graph` by `plan`, with MakeStream's
/// preconditions. The same graph and plan give the same bytes.
///
/// A launch is an op, its results, an arrow and its operands. @32+16 are 16 bytes of the
/// arena from address 32, @host:32+16 the same of host memory. `t of h` is a view or new
/// content of h, `in place` marks a result in an operand's buffer, and
/// `with scratch @64+16` is the kernel's workspace. Names are written as in the text form
/// of graphs (ir/text.h), so that lines can be parsed.
std::string ToStreamText(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TEXT_H_
