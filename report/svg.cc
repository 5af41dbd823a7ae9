#include "report/svg.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"
#include "planner/lifetimes.h"
#include "report/format.h"
#include "report/text.h"

namespace stowage {
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
      break;
  }
  return "#9c9c9c";
}

std::string Number(double value) { return Fixed(value, 2); }

class Drawing {
 public:
  explicit Drawing(const Report& report)
      : report_(report),
        end_(std::max<double>(1, static_cast<double>(report.nodes.size()))),
        top_(std::max<double>(1, static_cast<double>(report.arena))) {}

  std::string Draw() {
    out_ = StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ",
        kHeight, "\" width=\"", kWidth, "\" height=\"", kHeight,
        "\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect class=\"page\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<style>.buffer{stroke:#fff;stroke-width:.4}"
        ".buffer:hover{stroke:#000;stroke-width:1.5}</style>\n");
    Heading();
    Legend();
    Axes();
    for (const ReportBuffer& buffer : report_.buffers) DrawBuffer(buffer);
    PeakLine();
    Curve();
    return out_ + "</svg>\n";
  }

 private:
  double X(double time) const { return kLeft + kPlotWidth * (time / end_); }
  double Y(double address) const {
    return kTop + kMapHeight * (1 - address / top_);
  }
  double CurveY(double bytes) const {
    return kCurveTop + kCurveHeight * (1 - bytes / top_);
  }

  void Text(double x, double y, std::string_view attributes,
            std::string_view text) {
    out_ += StrCat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" ",
                   attributes, ">", XmlEscaped(text), "</text>\n");
  }

  void Heading() {
    Text(kLeft, 24, "font-size=\"17\" font-weight=\"bold\"",
         report_.graph_name);
    Text(kLeft, 44, "fill=\"#444\"",
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
      out_ += StrCat("<rect class=\"key\" x=\"", Number(x),
                     "\" y=\"58\" width=\"12\" height=\"12\" fill=\"",
                     ColourOf(region), "\"/>\n");
      Text(x + 17, 68, "fill=\"#222\"", label);
      x += 34 + 7.0 * static_cast<double>(label.size());
    }
  }

  void Axes() {
    constexpr int kLines = 5;
    for (int i = 0; i <= kLines; ++i) {
      const double address = top_ * i / kLines;
      out_ += StrCat("<line x1=\"", Number(kLeft), "\" x2=\"",
                     Number(kLeft + kPlotWidth), "\" y1=\"", Number(Y(address)),
                     "\" y2=\"", Number(Y(address)), "\" stroke=\"#ddd\"/>\n");
      Text(kLeft - 6, Y(address) + 4, "text-anchor=\"end\" fill=\"#444\"",
           FormatBytes(static_cast<Bytes>(address)));
    }
    Text(kLeft, kHeight - 8, "fill=\"#444\"", "time 0");
    Text(kLeft + kPlotWidth, kHeight - 8, "text-anchor=\"end\" fill=\"#444\"",
         StrCat(report_.nodes.size(), " nodes"));
  }

  void DrawBuffer(const ReportBuffer& buffer) {
    const double bottom = static_cast<double>(buffer.address);
    const double top = bottom + static_cast<double>(buffer.size);
    const double x = X(static_cast<double>(buffer.lower));
    // What lives on after the last node ends with the picture.
    const double upper = std::min(static_cast<double>(buffer.upper), end_);
    const double width = std::max(0.0, X(upper) - x);
    out_ +=
        StrCat("<rect class=\"buffer\" x=\"", Number(x), "\" y=\"",
               Number(Y(top)), "\" width=\"", Number(width), "\" height=\"",
               Number(std::max(0.0, Y(bottom) - Y(top))), "\" fill=\"",
               ColourOf(buffer.region), "\"><title>", XmlEscaped(buffer.name),
               "\n", RegionName(buffer.region), ", ", FormatBytes(buffer.size),
               " (", buffer.size, " bytes) at ", buffer.address, "\nlives ",
               Interval(buffer.lower, buffer.upper), "</title></rect>\n");
  }

  void PeakLine() {
    if (report_.nodes.empty()) return;
    const double x = X(static_cast<double>(report_.peak_time) + 0.5);
    out_ += StrCat("<line class=\"peak\" x1=\"", Number(x), "\" x2=\"",
                   Number(x), "\" y1=\"", Number(kTop), "\" y2=\"",
                   Number(kCurveTop + kCurveHeight),
                   "\" stroke=\"#d62728\" stroke-dasharray=\"4 3\"/>\n");
    const bool right_half = x > kLeft + kPlotWidth / 2;
    Text(right_half ? x - 5 : x + 5, kCurveTop - 10,
         right_half ? "text-anchor=\"end\" fill=\"#d62728\""
                    : "fill=\"#d62728\"",
         StrCat("peak: time ", report_.peak_time, ", ", report_.peak_node));
  }

  // Live bytes over time, a step at each node, under the arena's height.
  void Curve() {
    std::string points = StrCat(Number(kLeft), ",", Number(CurveY(0)));
    for (size_t time = 0; time < report_.live.size(); ++time) {
      const double y = CurveY(static_cast<double>(report_.live[time].total()));
      const double at = static_cast<double>(time);
      points += StrCat(" ", Number(X(at)), ",", Number(y), " ",
                       Number(X(at + 1)), ",", Number(y));
    }
    points += StrCat(" ", Number(kLeft + kPlotWidth), ",", Number(CurveY(0)));
    out_ += StrCat("<polygon class=\"live\" points=\"", points,
                   "\" fill=\"#76b7b2\" fill-opacity=\".6\" "
                   "stroke=\"#2a7f79\"><title>live bytes</title></polygon>\n");
    out_ += StrCat("<line class=\"arena\" x1=\"", Number(kLeft), "\" x2=\"",
                   Number(kLeft + kPlotWidth), "\" y1=\"", Number(kCurveTop),
                   "\" y2=\"", Number(kCurveTop), "\" stroke=\"#222\"/>\n");
    Text(kLeft - 6, kCurveTop + 4, "text-anchor=\"end\" fill=\"#444\"",
         "arena");
    Text(kLeft - 6, CurveY(0) + 4, "text-anchor=\"end\" fill=\"#444\"",
         "live bytes");
  }

  const Report& report_;
  const double end_;
  const double top_;
  std::string out_;
};

}  // namespace

std::string ToSvg(const Report& report) { return Drawing(report).Draw(); }

std::string ToHtml(const Report& report) {
  return StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
      "<title>Stowage: ",
      XmlEscaped(report.graph_name),
      "</title>\n<style>body{margin:1em;font-family:sans-serif}"
      "svg{max-width:100%;height:auto}</style></head>\n<body>\n",
      ToSvg(report), "<pre>\n",
      XmlEscaped(StrCat(SummaryTable(report), PeakTable(report, 25))),
      "</pre>\n</body>\n</html>\n");
}

}  // namespace stowage
