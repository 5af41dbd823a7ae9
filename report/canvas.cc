#include "report/canvas.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "report/format.h"

namespace stowage {
namespace {

std::string Number(double value) { return Fixed(value, 2); }

std::string List(const std::vector<Point>& points) {
  std::string list;
  for (const Point& point : points) {
    if (!list.empty()) list += ' ';
    list += StrCat(Number(point.x), ",", Number(point.y));
  }
  return list;
}

std::string Ending(std::string_view element, std::string_view title) {
  if (title.empty()) return "/>\n";
  std::string lines;  // each escaped by itself, so that their ends stay
  while (true) {
    const size_t end = std::min(title.find('\n'), title.size());
    lines += XmlEscaped(title.substr(0, end));
    if (end == title.size()) break;
    lines += '\n';
    title.remove_prefix(end + 1);
  }
  return StrCat("><title>", lines, "</title></", element, ">\n");
}

}  // namespace

Canvas::Canvas(double width, double height)
    : out_(StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
                  width, " ", height, "\" width=\"", width, "\" height=\"",
                  height,
                  "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect class=\"page\" width=\"100%\" height=\"100%\" "
                  "fill=\"white\"/>\n"
                  "<style>.buffer{stroke:#fff;stroke-width:.4}"
                  ".buffer:hover{stroke:#000;stroke-width:1.5}</style>\n")) {}

void Canvas::Text(Point at, std::string_view attributes,
                  std::string_view text) {
  out_ += StrCat("<text x=\"", Number(at.x), "\" y=\"", Number(at.y), "\" ",
                 attributes, ">", XmlEscaped(text), "</text>\n");
}

void Canvas::Line(std::string_view kind, Point from, Point to,
                  std::string_view colour, std::string_view attributes) {
  out_ += StrCat("<line class=\"", kind, "\" x1=\"", Number(from.x), "\" x2=\"",
                 Number(to.x), "\" y1=\"", Number(from.y), "\" y2=\"",
                 Number(to.y), "\" stroke=\"", colour, "\"",
                 attributes.empty() ? "" : " ", attributes, "/>\n");
}

void Canvas::Rectangle(std::string_view kind, const Box& box,
                       std::string_view fill, std::string_view title) {
  out_ += StrCat("<rect class=\"", kind, "\" x=\"", Number(box.x), "\" y=\"",
                 Number(box.y), "\" width=\"", Number(box.width),
                 "\" height=\"", Number(box.height), "\" fill=\"", fill, "\"",
                 Ending("rect", title));
}

void Canvas::Polygon(std::string_view kind, const std::vector<Point>& points,
                     std::string_view attributes, std::string_view title) {
  out_ += StrCat("<polygon class=\"", kind, "\" points=\"", List(points), "\" ",
                 attributes, Ending("polygon", title));
}

void Canvas::Polyline(std::string_view kind, const std::vector<Point>& points,
                      std::string_view colour, std::string_view attributes) {
  out_ += StrCat("<polyline class=\"", kind, "\" points=\"", List(points),
                 "\" fill=\"none\" stroke=\"", colour, "\"",
                 attributes.empty() ? "" : " ", attributes, "/>\n");
}

std::string Canvas::Finish() { return std::move(out_) + "</svg>\n"; }

}  // namespace stowage
