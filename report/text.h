#ifndef STOWAGE_REPORT_TEXT_H_
#define STOWAGE_REPORT_TEXT_H_

// Writes a report (report/numbers.h) as text: a table of fixed width with the formula of each
// figure, a map of the arena, and the stream of a step (planner/stream.h) with one event per line.
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

/// Returns SummaryTable, PeakTable with ten rows, and MemoryMap as one text without control
/// characters except line breaks.
std::string ToText(const Report& report);

/// Returns a table of the regions and figures.
std::string SummaryTable(const Report& report);

/// Returns a table of the buffers that are live at the peak, largest first, with at most
/// `limit` rows.
std::string PeakTable(const Report& report, size_t limit);

struct MemoryMapOptions {
  /// The maximum number of columns. At least 1. The map has at most one column per node.
  int columns = 64;
  int rows = 24;  // The number of rows. At least 1.
  /// The number of buffers, largest first, that have a letter. At most 26. The legend omits buffers
  /// that are too small to be visible.
  int letters = 16;
};

/// Returns the arena as a character map with a legend. The y axis is the address, and the x
/// axis is time. Each of the largest activations and workspaces has a letter. The other buffers of
/// each region have one sign per region.
///
///   400 B | .AAAA
///   300 B | .AAAA      A  h1     200 B  [1, 5)  activations
///   200 B | i++++      B  ...
///   100 B | wwwww
///
/// A cell is a range of addresses and times. It shows the letter or sign that covers most of it, or
/// '.' if at least half of it is free. With the default options, lines have at most 80 characters.
/// Returns "" for an empty arena or schedule. Takes time in proportion to the number of cells that
/// each buffer touches, summed over all buffers.
std::string MemoryMap(const Report& report,
                      const MemoryMapOptions& options = {});

/// Returns `text`, followed by spaces up to `width` bytes. Longer text is truncated to `width`
/// bytes, the last of which are "..." if `width` is above 3.
std::string PadRight(std::string_view text, size_t width);
/// Like PadRight, but the spaces precede the text.
std::string PadLeft(std::string_view text, size_t width);

/// Returns an interval in the form "[3, 17)".
std::string Interval(packing::Time lower, packing::Time upper);

/// Returns `value` in the form "1,234,567".
std::string WithCommas(int64_t value);

/// Returns `text` with & < > " ' as XML entities, control characters as spaces, and U+FFFD
/// for invalid UTF-8 bytes.
std::string XmlEscaped(std::string_view text);

/// Returns the stream of one run of `graph` under `plan` as text (MakeStream in planner/stream.h).
/// The arguments must satisfy the requirements of MakeStream. Equal graphs and plans give equal
/// text.
///
/// A launch is written as an op, its results, an arrow and its operands. @32+16 means 16 bytes of
/// the arena from address 32 on. @host:32+16 means the bytes at these addresses of host memory.
/// @outside:32+16 at x means the bytes at these addresses of x, an operand or result of the body.
/// `t of h` is a view of h, or the new content of h after an update. `in place` marks a result in
/// an operand's buffer. `with scratch @64+16` is the kernel's workspace. Names are written as in
/// the text form of graphs (ir/text.h), so that lines can be parsed.
std::string ToStreamText(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TEXT_H_
