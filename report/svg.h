#ifndef STOWAGE_REPORT_SVG_H_
#define STOWAGE_REPORT_SVG_H_

// Draws SVG files of the arena of a plan, of a packing, and of a Pareto frontier. Every file is
// self-contained, without scripts, fonts or links. Hovering over a shape shows its details.
//
//   Write("plan.svg", ToSvg(report));
//   Write("packing.svg", ToSvg(problem, packing));
//   Write("frontier.svg", FrontierToSvg({.title = "gpt-nano", .cost = "more operations"}, marks));

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "report/numbers.h"

namespace stowage {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;  // The upper left corner.
  double y = 0;
  double width = 0;
  double height = 0;
};

/// An SVG drawing that is built shape by shape. `kind` is the class attribute of a shape, to which
/// styles and tests refer. Points are in SVG units from the upper left corner.
///
///   Canvas canvas(1200, 600);
///   canvas.Rectangle("buffer", {.x = 90, .y = 64, .width = 20, .height = 10},
///                    "#4e79a7", "h1");
///   Write("image.svg", canvas.Finish());
class Canvas {
 public:
  /// Creates a white page of this size, in SVG units.
  Canvas(double width, double height);

  /// Draws text that begins at `at`. `attributes`, here and below, are written without escaping,
  /// and `text` is escaped.
  void Text(Point at, std::string_view attributes, std::string_view text);
  /// Draws a line.
  void Line(std::string_view kind, Point from, Point to,
            std::string_view colour, std::string_view attributes = "");
  /// Draws a rectangle. `title` is the tooltip. If it is empty, the rectangle has no tooltip.
  void Rectangle(std::string_view kind, const Box& box, std::string_view fill,
                 std::string_view title = "");
  /// Draws a closed, filled shape. `title` is the tooltip.
  void Polygon(std::string_view kind, const std::vector<Point>& points,
               std::string_view attributes, std::string_view title);
  /// Draws an open line without filling it.
  void Polyline(std::string_view kind, const std::vector<Point>& points,
                std::string_view colour, std::string_view attributes = "");

  /// Returns the contents of the SVG file. Must be called once, after all shapes have been drawn.
  std::string Finish();

 private:
  std::string out_;
};

/// Draws the arena of a plan. The x axis is time, and the y axis is the address. Each
/// buffer is a rectangle in the color of its region. The live bytes and the arena's height
/// are drawn below, on the same time axis. Linear in the number of buffers and nodes. The file of a
/// plan with 2,000 buffers has about 0.5 MB.
std::string ToSvg(const Report& report);

/// Draws a packing in the same way as a plan, with the live bytes and the height below. If the live
/// bytes reach the height, no packing is lower.
///
/// `packing` must have an offset for each buffer of `problem`. Buffers of size 0 are not
/// drawn, and fixed buffers are gray. O(n log n). A file has about 250 bytes per buffer.
std::string ToSvg(const packing::Problem& problem,
                  const packing::Packing& packing);

/// A plan on the Pareto frontier.
struct FrontierMark {
  /// The smallest budget that the plan fits.
  Bytes budget = 0;
  double percent = 0;  // The overhead of the plan, in percent.
  /// A proven lower bound on the overhead of all plans that fit the budget.
  std::optional<double> least_percent = {};
  std::string note = {};  // The tooltip.
};

struct FrontierLabels {
  std::string title;
  std::string cost;  // The unit of the percentages: "more operations".
};

/// Draws the Pareto frontier of `marks`, which must be sorted by decreasing budget. The x axis is
/// the budget. The y axis is the overhead of the cheapest plan in `marks` that fits the budget, on
/// a logarithmic scale of 1 + percent. The curve steps down where a larger budget has a lower
/// overhead. No plan in `marks` fits a budget to the left of the curve. A dashed line shows the
/// lower bounds, if they are known. Linear.
std::string FrontierToSvg(const FrontierLabels& labels,
                          std::span<const FrontierMark> marks);

}  // namespace stowage

#endif  // STOWAGE_REPORT_SVG_H_
