#include "report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "planner/lifetimes.h"
#include "report/text.h"

namespace stowage {

namespace {

// Attributes that the images share: for right-aligned texts, other small texts,
// headings, and the area under live bytes.
constexpr std::string_view kEndsHere = "text-anchor=\"end\" fill=\"#444\"";
constexpr std::string_view kQuiet = "fill=\"#444\"";
constexpr std::string_view kLiveBytes =
    "fill=\"#76b7b2\" fill-opacity=\".6\" stroke=\"#2a7f79\"";
constexpr std::string_view kHeading = "font-size=\"17\" font-weight=\"bold\"";

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

namespace {

// The page, in SVG units.
constexpr double kWidth = 1200;
constexpr double kLeft = 90;
constexpr double kRight = 20;
constexpr double kTop = 86;
constexpr double kMapHeight = 520;
constexpr double kGap = 34;  // between the map and the curve
constexpr double kCurveHeight = 110;
constexpr double kBottom = 30;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotRight = kLeft + kPlotWidth;
constexpr double kCurveTop = kTop + kMapHeight + kGap;
constexpr double kHeight = kCurveTop + kCurveHeight + kBottom;

std::string_view ColourOf(Region region) {
  switch (region) {
    case Region::kWeights:
      return "#4e79a7";
    case Region::kState:
      return "#b07aa1";
    case Region::kIo:
      return "#59a14f";
    case Region::kActivations:
      return "#f28e2b";
    case Region::kWorkspace:
    case Region::kHostState:  // not in the image
    case Region::kHostOffload:
    case Region::kOutside:
      break;
  }
  return "#9c9c9c";
}

class Drawing {
 public:
  explicit Drawing(const Report& report)
      : report_(report),
        end_(std::max<double>(1, static_cast<double>(report.nodes.size()))),
        top_(std::max<double>(1, static_cast<double>(report.arena))) {}

  std::string Draw() {
    Heading();
    Legend();
    Axes();
    for (const ReportBuffer& buffer : report_.buffers) {
      if (!IsOnHost(buffer.region)) DrawBuffer(buffer);
    }
    PeakLine();
    Curve();
    return canvas_.Finish();
  }

 private:
  double X(double time) const { return kLeft + kPlotWidth * (time / end_); }
  double Y(double address) const {
    return kTop + kMapHeight * (1 - address / top_);
  }
  double CurveY(double bytes) const {
    return kCurveTop + kCurveHeight * (1 - bytes / top_);
  }

  void Heading() {
    canvas_.Text({kLeft, 24}, kHeading, report_.graph_name);
    canvas_.Text(
        {kLeft, 44}, kQuiet,
        StrCat("arena ", FormatBytes(report_.arena), ", lower bound ",
               FormatBytes(report_.lower_bound), "; without reuse ",
               FormatBytes(report_.no_reuse), ", so saved ",
               FormatBytes(report_.saved()), " (",
               Fixed(report_.saved_percent(), 1), " %); caching allocator ",
               FormatBytes(report_.caching_allocator)));
  }

  void Legend() {
    double x = kLeft;
    for (const Region region : kRegions) {
      const std::string label =
          StrCat(RegionName(region), " ",
                 FormatBytes(BytesOf(report_.regions, region)));
      canvas_.Rectangle("key", {x, 58, 12, 12}, ColourOf(region));
      canvas_.Text({x + 17, 68}, "fill=\"#222\"", label);
      x += 34 + 7.0 * static_cast<double>(label.size());
    }
  }

  void Axes() {
    constexpr int kLines = 5;
    for (int i = 0; i <= kLines; ++i) {
      const double address = top_ * i / kLines;
      canvas_.Line("grid", {kLeft, Y(address)}, {kPlotRight, Y(address)},
                   "#ddd");
      canvas_.Text({kLeft - 6, Y(address) + 4}, kEndsHere,
                   FormatBytes(static_cast<Bytes>(address)));
    }
    canvas_.Text({kLeft, kHeight - 8}, kQuiet, "time 0");
    canvas_.Text({kPlotRight, kHeight - 8}, kEndsHere,
                 StrCat(report_.nodes.size(), " nodes"));
  }

  void DrawBuffer(const ReportBuffer& buffer) {
    const double bottom = static_cast<double>(buffer.address);
    const double top = bottom + static_cast<double>(buffer.size);
    const double x = X(static_cast<double>(buffer.lower));
    // Buffers that outlive the last node end with the image.
    const double upper = std::min(static_cast<double>(buffer.upper), end_);
    canvas_.Rectangle("buffer",
                      {.x = x,
                       .y = Y(top),
                       .width = std::max(0.0, X(upper) - x),
                       .height = std::max(0.0, Y(bottom) - Y(top))},
                      ColourOf(buffer.region),
                      StrCat(buffer.name, "\n", RegionName(buffer.region), ", ",
                             FormatBytes(buffer.size), " (", buffer.size,
                             " bytes) at ", buffer.address, "\nlives ",
                             Interval(buffer.lower, buffer.upper)));
  }

  void PeakLine() {
    if (report_.nodes.empty()) return;
    const double x = X(static_cast<double>(report_.peak_time) + 0.5);
    canvas_.Line("peak", {x, kTop}, {x, kCurveTop + kCurveHeight}, "#d62728",
                 "stroke-dasharray=\"4 3\"");
    const bool right_half = x > kLeft + kPlotWidth / 2;
    canvas_.Text(
        {right_half ? x - 5 : x + 5, kCurveTop - 10},
        right_half ? "text-anchor=\"end\" fill=\"#d62728\""
                   : "fill=\"#d62728\"",
        StrCat("peak: time ", report_.peak_time, ", ", report_.peak_node));
  }

  // Live bytes over time, a step at each node, under the arena's height.
  void Curve() {
    std::vector<Point> points = {{kLeft, CurveY(0)}};
    for (size_t time = 0; time < report_.live.size(); ++time) {
      const double y = CurveY(static_cast<double>(report_.live[time].total()));
      const double at = static_cast<double>(time);
      points.push_back({X(at), y});
      points.push_back({X(at + 1), y});
    }
    points.push_back({kPlotRight, CurveY(0)});
    canvas_.Polygon("live", points, kLiveBytes, "live bytes");
    canvas_.Line("arena", {kLeft, kCurveTop}, {kPlotRight, kCurveTop}, "#222");
    canvas_.Text({kLeft - 6, kCurveTop + 4}, kEndsHere, "arena");
    canvas_.Text({kLeft - 6, CurveY(0) + 4}, kEndsHere, "live bytes");
  }

  const Report& report_;
  const double end_;
  const double top_;
  Canvas canvas_{kWidth, kHeight};
};

}  // namespace

std::string ToSvg(const Report& report) { return Drawing(report).Draw(); }

namespace {

using packing::Buffer;
using packing::Packing;
using packing::Problem;
using packing::Time;

// The page, in SVG units.
constexpr double kPackingWidth = 1200;
constexpr double kPackingLeft = 90;
constexpr double kPackingRight = 20;
constexpr double kPackingTop = 64;
constexpr double kPackingMapHeight = 560;
constexpr double kPackingGap = 24;  // between the map and the curve
constexpr double kPackingCurveHeight = 110;
constexpr double kPackingBottom = 30;
constexpr double kPackingPlotWidth =
    kPackingWidth - kPackingLeft - kPackingRight;
constexpr double kPackingPlotRight = kPackingLeft + kPackingPlotWidth;
constexpr double kPackingCurveTop =
    kPackingTop + kPackingMapHeight + kPackingGap;
constexpr double kPackingHeight =
    kPackingCurveTop + kPackingCurveHeight + kPackingBottom;

// Neighbours mostly differ in colour.
constexpr std::array<std::string_view, 7> kColours = {
    "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
    "#76b7b2", "#edc948", "#e15759"};
constexpr std::string_view kFixedColour = "#9c9c9c";

class PackingDrawing {
 public:
  PackingDrawing(const Problem& problem, const Packing& packing)
      : problem_(problem), packing_(packing) {
    STOWAGE_CHECK(packing.solution.offsets.size() == problem.buffers.size());
    Bytes top = packing.solution.height;
    if (problem.capacity) top = std::max(top, *problem.capacity);
    top_ = std::max(1.0, static_cast<double>(top));
    if (problem.buffers.empty()) return;
    first_ = problem.buffers[0].lower;
    last_ = problem.buffers[0].upper;
    for (const Buffer& b : problem.buffers) {
      first_ = std::min(first_, b.lower);
      last_ = std::max(last_, b.upper);
    }
  }

  std::string Draw() {
    Heading();
    Axes();
    for (size_t i = 0; i < problem_.buffers.size(); ++i) DrawBuffer(i);
    if (problem_.capacity) {
      Level("capacity", Y(static_cast<double>(*problem_.capacity)), "#d62728");
    }
    Curve();
    return canvas_.Finish();
  }

 private:
  double X(Time time) const {
    const double span =
        std::max(1.0, static_cast<double>(last_) - static_cast<double>(first_));
    return kPackingLeft + kPackingPlotWidth * ((static_cast<double>(time) -
                                                static_cast<double>(first_)) /
                                               span);
  }
  double Y(double address) const {
    return kPackingTop + kPackingMapHeight * (1 - address / top_);
  }
  double CurveY(double bytes) const {
    return kPackingCurveTop + kPackingCurveHeight * (1 - bytes / top_);
  }

  void Level(std::string_view kind, double y, std::string_view colour) {
    canvas_.Line(kind, {kPackingLeft, y}, {kPackingPlotRight, y}, colour);
  }

  void Heading() {
    canvas_.Text(
        {kPackingLeft, 24}, kHeading,
        StrCat(WithCommas(static_cast<int64_t>(problem_.buffers.size())),
               " buffers"));
    canvas_.Text(
        {kPackingLeft, 44}, kQuiet,
        StrCat("height ", packing_.solution.height, " bytes, lower bound ",
               packing_.lower_bound, packing_.optimal ? ": optimal" : "", "; ",
               packing_.packer));
  }

  void Axes() {
    constexpr int kLines = 5;
    for (int i = 0; i <= kLines; ++i) {
      const double address = top_ * i / kLines;
      Level("grid", Y(address), "#ddd");
      canvas_.Text({kPackingLeft - 6, Y(address) + 4}, kEndsHere,
                   FormatBytes(static_cast<Bytes>(address)));
    }
    canvas_.Text({kPackingLeft, kPackingHeight - 8}, kQuiet,
                 StrCat("time ", first_));
    canvas_.Text({kPackingPlotRight, kPackingHeight - 8}, kEndsHere,
                 StrCat("time ", last_));
  }

  void DrawBuffer(size_t i) {
    const Buffer& b = problem_.buffers[i];
    if (b.size == 0) return;
    const Bytes offset = packing_.solution.offsets[i];
    const double bottom = static_cast<double>(offset);
    const double top = bottom + static_cast<double>(b.size);
    canvas_.Rectangle(
        "buffer",
        {.x = X(b.lower),
         .y = Y(top),
         .width = X(b.upper) - X(b.lower),
         .height = Y(bottom) - Y(top)},
        b.offset ? kFixedColour : kColours[i % kColours.size()],
        StrCat(BufferName(problem_, i), "\n", FormatBytes(b.size), " (", b.size,
               " bytes) at ", offset, b.offset ? ", fixed" : "", "\nlives ",
               Interval(b.lower, b.upper)));
  }

  // Live bytes over time, a step at each birth and death.
  void Curve() {
    std::map<Time, Bytes> changes;
    for (const Buffer& b : problem_.buffers) {
      changes[b.lower] += b.size;
      changes[b.upper] -= b.size;
    }
    std::vector<Point> points = {{kPackingLeft, CurveY(0)}};
    Bytes live = 0;
    for (const auto& [time, change] : changes) {
      points.push_back({X(time), CurveY(static_cast<double>(live))});
      live += change;
      points.push_back({X(time), CurveY(static_cast<double>(live))});
    }
    points.push_back({kPackingPlotRight, CurveY(0)});
    canvas_.Polygon("live", points, kLiveBytes, "live bytes");
    const double y = CurveY(static_cast<double>(packing_.solution.height));
    Level("height", y, "#222");
    canvas_.Text({kPackingLeft - 6, y + 4}, kEndsHere, "height");
    canvas_.Text({kPackingLeft - 6, CurveY(0) + 4}, kEndsHere, "live bytes");
  }

  const Problem& problem_;
  const Packing& packing_;
  Time first_ = 0;
  Time last_ = 1;
  double top_ = 1;
  Canvas canvas_{kPackingWidth, kPackingHeight};
};

}  // namespace

std::string ToSvg(const packing::Problem& problem,
                  const packing::Packing& packing) {
  return PackingDrawing(problem, packing).Draw();
}

namespace {

// The page, in SVG units.
constexpr double kFrontierWidth = 900;
constexpr double kFrontierHeight = 520;
constexpr double kFrontierLeft = 80;
constexpr double kFrontierRight = kFrontierWidth - 40;
constexpr double kFrontierTop = 70;
constexpr double kFrontierBottom = kFrontierHeight - 50;

class FrontierDrawing {
 public:
  FrontierDrawing(const FrontierLabels& labels,
                  std::span<const FrontierMark> marks)
      : labels_(labels), marks_(marks) {
    for (const FrontierMark& mark : marks) {
      most_bytes_ = std::max(most_bytes_, static_cast<double>(mark.budget));
      most_ = std::max(most_, mark.percent);
    }
  }

  std::string Draw() {
    Heading();
    Axes();
    Bound();
    Steps();
    for (const FrontierMark& mark : marks_) {
      const Point at = {X(mark.budget), Y(mark.percent)};
      canvas_.Rectangle("mark", {at.x - 3, at.y - 3, 6, 6}, "#4e79a7",
                        mark.note);
    }
    return canvas_.Finish();
  }

 private:
  double X(double bytes) const {
    return kFrontierLeft +
           (kFrontierRight - kFrontierLeft) * bytes / most_bytes_;
  }
  double X(Bytes bytes) const { return X(static_cast<double>(bytes)); }
  // Even steps are equal ratios of 1 + percent.
  double Y(double percent) const {
    return kFrontierBottom - (kFrontierBottom - kFrontierTop) *
                                 std::log1p(percent) / std::log1p(most_);
  }

  void Heading() {
    canvas_.Text({kFrontierLeft, 24}, kHeading, labels_.title);
    canvas_.Text({kFrontierLeft, 44}, kQuiet,
                 StrCat("budget to the right, ", labels_.cost,
                        " upwards; dashed: no plan can need less"));
  }

  void Axes() {
    for (const double percent : {0, 1, 3, 10, 30, 100, 300, 1000}) {
      if (percent > most_) break;
      canvas_.Line("grid", {kFrontierLeft, Y(percent)},
                   {kFrontierRight, Y(percent)}, "#ddd");
      canvas_.Text({kFrontierLeft - 6, Y(percent) + 4}, kEndsHere,
                   StrCat(percent, " %"));
    }
    constexpr int kLines = 4;
    for (int i = 0; i <= kLines; ++i) {
      const double bytes = most_bytes_ * i / kLines;
      canvas_.Line("grid", {X(bytes), kFrontierTop},
                   {X(bytes), kFrontierBottom}, "#ddd");
      canvas_.Text({X(bytes), kFrontierBottom + 18},
                   "text-anchor=\"middle\" fill=\"#444\"",
                   FormatBytes(static_cast<Bytes>(bytes)));
    }
  }

  // From the largest budget down; each overhead holds down to the next smaller budget.
  void Steps() {
    std::vector<Point> points;
    for (const FrontierMark& mark : marks_) {
      if (!points.empty()) points.push_back({points.back().x, Y(mark.percent)});
      points.push_back({X(mark.budget), Y(mark.percent)});
    }
    canvas_.Polyline("found", points, "#4e79a7", "stroke-width=\"2\"");
  }

  void Bound() {
    std::vector<Point> points;
    for (const FrontierMark& mark : marks_) {
      if (!mark.least_percent) continue;
      points.push_back({X(mark.budget), Y(*mark.least_percent)});
    }
    if (points.empty()) return;
    canvas_.Polyline("bound", points, "#d62728", "stroke-dasharray=\"4 3\"");
  }

  const FrontierLabels& labels_;
  const std::span<const FrontierMark> marks_;
  double most_bytes_ = 1;
  double most_ = 1;
  Canvas canvas_{kFrontierWidth, kFrontierHeight};
};

}  // namespace

std::string FrontierToSvg(const FrontierLabels& labels,
                          std::span<const FrontierMark> marks) {
  return FrontierDrawing(labels, marks).Draw();
}

}  // namespace stowage
