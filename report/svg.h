#ifndef STOWAGE_REPORT_SVG_H_
#define STOWAGE_REPORT_SVG_H_

// The arena as an image: the x axis is time, the y axis the address, with one
// rectangle for each buffer in the region's colour; hovering shows name, bytes
// and lifetime. Below it, on the same time axis, are the live bytes and the
// arena's height. The file is self-contained: no script, no font, no link.
//
//   Write("plan.svg", ToSvg(report));

#include <string>
#include <string_view>
#include <vector>

#include "report/numbers.h"

namespace stowage {

// An SVG drawing, built shape by shape, for the images of plans, packings and
// frontiers. The file is self-contained: no script, no font, no link. `kind` is
// a shape's class, which styles and tests refer to.
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
  double x = 0;  // of the upper left corner
  double y = 0;
  double width = 0;
  double height = 0;
};

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

// Attributes that the images share: for right-aligned texts, other small texts,
// headings, and the area under live bytes.
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
