#ifndef STOWAGE_REPORT_SVG_H_
#define STOWAGE_REPORT_SVG_H_

// Images as SVG files: the arena of a plan, a packing and the Pareto frontier. Every file is
// self-contained: no script, no font, no link. Hovering over a shape shows its details.
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
  double x = 0;  // of the upper left corner
  double y = 0;
  double width = 0;
  double height = 0;
};

/// An SVG drawing, built shape by shape. `kind` is a shape's class, which styles and tests
/// refer to.
///
///   Canvas canvas(1200, 600);
///   canvas.Rectangle("buffer", {.x = 90, .y = 64, .width = 20, .height = 10},
///                    "#4e79a7", "h1");
///   Write("image.svg", canvas.Finish());
class Canvas {
 public:
  /// A white page of this size, in SVG units.
  Canvas(double width, double height);

  /// `attributes` are written without escaping; `text` is escaped.
  void Text(Point at, std::string_view attributes, std::string_view text);
  void Line(std::string_view kind, Point from, Point to,
            std::string_view colour, std::string_view attributes = "");
  /// `title` is the tooltip; "": none.
  void Rectangle(std::string_view kind, const Box& box, std::string_view fill,
                 std::string_view title = "");
  /// A closed, filled shape.
  void Polygon(std::string_view kind, const std::vector<Point>& points,
               std::string_view attributes, std::string_view title);
  /// An open line, not filled.
  void Polyline(std::string_view kind, const std::vector<Point>& points,
                std::string_view colour, std::string_view attributes = "");

  /// The file. Nothing may be drawn afterwards.
  std::string Finish();

 private:
  std::string out_;
};

/// The arena of a plan: the x axis is time, the y axis the address, with one rectangle for
/// each buffer in the region's colour. Below it, on the same time axis, are the live bytes
/// and the arena's height. Linear in buffers and nodes; a plan of 2,000 buffers gives about
/// 0.5 MB.
std::string ToSvg(const Report& report);

/// A packing, drawn like a plan, with the live bytes and the height below: where they touch,
/// no packing could be lower.
///
/// `packing` must have an offset for each buffer of `problem`. Buffers of size
/// zero are not drawn; fixed ones are grey. O(n log n); about 250 bytes a
/// buffer.
std::string ToSvg(const packing::Problem& problem,
                  const packing::Packing& packing);

/// A point of the frontier.
struct FrontierMark {
  Bytes budget = 0;                          // the smallest budget that it fits
  double percent = 0;                        // overhead
  std::optional<double> least_percent = {};  // proven lower bound of any plan
  std::string note = {};
};

struct FrontierLabels {
  std::string title;
  std::string cost;  // the unit of the percents: "more operations"
};

/// The Pareto frontier: the x axis is the budget, the y axis the overhead of the plan that
/// fits it, on a scale on which both one and a hundred percent are visible. The curve steps
/// down where a larger budget is cheaper; nothing fits left of the last step. The lower
/// bounds are drawn below, if known. Precondition: `marks` are by decreasing budget. Linear.
std::string FrontierToSvg(const FrontierLabels& labels,
                          std::span<const FrontierMark> marks);

}  // namespace stowage

#endif  // STOWAGE_REPORT_SVG_H_
