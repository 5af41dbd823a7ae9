#ifndef STOWAGE_REPORT_SVG_H_
#define STOWAGE_REPORT_SVG_H_

// The arena as an image: time to the right, address upwards, one rectangle for
// each buffer, its colour the region's; hovering shows name, bytes and
// lifetime. Below it, on the same time axis, live bytes beside the arena's
// height. One file that needs nothing else: no script, no font, no link.
//
//   Write("plan.svg", ToSvg(report));

#include <string>
#include <string_view>
#include <vector>

#include "report/numbers.h"

namespace stowage {

// A drawing in SVG, shape by shape: what the images of plans, packings and
// frontiers are made of. One file that needs nothing else: no script, no font,
// no link. `kind` is a shape's class, by which styles and tests find it.
//
//   Canvas canvas(1200, 600);
//   canvas.Rectangle("buffer", {.x = 90, .y = 64, .width = 20, .height = 10},
//                    "#4e79a7", "h1");
//   Write("image.svg", canvas.Finish());

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;  // of the left upper corner
  double y = 0;
  double width = 0;
  double height = 0;
};

class Canvas {
 public:
  /// A white page of this size, in SVG units.
  Canvas(double width, double height);

  /// `attributes` are written as they are; `text` is escaped.
  void Text(Point at, std::string_view attributes, std::string_view text);
  void Line(std::string_view kind, Point from, Point to,
            std::string_view colour, std::string_view attributes = "");
  /// `title` is what hovering shows; "": nothing.
  void Rectangle(std::string_view kind, const Box& box, std::string_view fill,
                 std::string_view title = "");
  /// Closed and filled.
  void Polygon(std::string_view kind, const std::vector<Point>& points,
               std::string_view attributes, std::string_view title);
  /// Open, and not filled.
  void Polyline(std::string_view kind, const std::vector<Point>& points,
                std::string_view colour, std::string_view attributes = "");

  /// The file. Nothing may be drawn after it.
  std::string Finish();

 private:
  std::string out_;
};

// Attributes that the images share: of texts that end where they are put, of
// other small ones, of headings, and of the area under live bytes.
inline constexpr std::string_view kEndsHere =
    "text-anchor=\"end\" fill=\"#444\"";
inline constexpr std::string_view kQuiet = "fill=\"#444\"";
inline constexpr std::string_view kLiveBytes =
    "fill=\"#76b7b2\" fill-opacity=\".6\" stroke=\"#2a7f79\"";
inline constexpr std::string_view kHeading =
    "font-size=\"17\" font-weight=\"bold\"";

/// Linear in buffers and nodes; a plan of 2,000 buffers gives about 0.5 MB.
std::string ToSvg(const Report& report);

}  // namespace stowage

#endif  // STOWAGE_REPORT_SVG_H_
