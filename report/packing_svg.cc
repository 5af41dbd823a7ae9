#include "report/packing_svg.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "base/strings.h"
#include "report/format.h"

namespace stowage {
namespace {

// The page, in SVG units.
constexpr double kWidth = 1200;
constexpr double kLeft = 90;
constexpr double kRight = 20;
constexpr double kTop = 64;
constexpr double kMapHeight = 560;
constexpr double kGap = 24;  // between the map and the curve
constexpr double kCurveHeight = 110;
constexpr double kBottom = 30;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kCurveTop = kTop + kMapHeight + kGap;
constexpr double kHeight = kCurveTop + kCurveHeight + kBottom;

// Neighbours differ in colour, mostly.
constexpr std::array<std::string_view, 7> kColours = {
    "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
    "#76b7b2", "#edc948", "#e15759"};
constexpr std::string_view kFixedColour = "#9c9c9c";

std::string Number(double value) { return Fixed(value, 2); }

class Drawing {
 public:
  Drawing(const Problem& problem, const Packing& packing)
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
    out_ = StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ",
        kHeight, "\" width=\"", kWidth, "\" height=\"", kHeight,
        "\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect class=\"page\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<style>.buffer{stroke:#fff;stroke-width:.4}"
        ".buffer:hover{stroke:#000;stroke-width:1.5}</style>\n");
    Heading();
    Axes();
    for (size_t i = 0; i < problem_.buffers.size(); ++i) DrawBuffer(i);
    if (problem_.capacity) {
      Line("capacity", Y(static_cast<double>(*problem_.capacity)), "#d62728");
    }
    Curve();
    return out_ + "</svg>\n";
  }

 private:
  double X(Time time) const {
    const double span =
        std::max(1.0, static_cast<double>(last_) - static_cast<double>(first_));
    return kLeft + kPlotWidth * ((static_cast<double>(time) -
                                  static_cast<double>(first_)) /
                                 span);
  }
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

  void Line(std::string_view kind, double y, std::string_view colour) {
    out_ +=
        StrCat("<line class=\"", kind, "\" x1=\"", Number(kLeft), "\" x2=\"",
               Number(kLeft + kPlotWidth), "\" y1=\"", Number(y), "\" y2=\"",
               Number(y), "\" stroke=\"", colour, "\"/>\n");
  }

  void Heading() {
    Text(kLeft, 24, "font-size=\"17\" font-weight=\"bold\"",
         StrCat(WithCommas(static_cast<int64_t>(problem_.buffers.size())),
                " buffers"));
    Text(kLeft, 44, "fill=\"#444\"",
         StrCat("height ", packing_.solution.height, " bytes, lower bound ",
                packing_.lower_bound, packing_.optimal ? ": optimal" : "", "; ",
                packing_.packer));
  }

  void Axes() {
    constexpr int kLines = 5;
    for (int i = 0; i <= kLines; ++i) {
      const double address = top_ * i / kLines;
      Line("grid", Y(address), "#ddd");
      Text(kLeft - 6, Y(address) + 4, "text-anchor=\"end\" fill=\"#444\"",
           FormatBytes(static_cast<Bytes>(address)));
    }
    Text(kLeft, kHeight - 8, "fill=\"#444\"", StrCat("time ", first_));
    Text(kLeft + kPlotWidth, kHeight - 8, "text-anchor=\"end\" fill=\"#444\"",
         StrCat("time ", last_));
  }

  void DrawBuffer(size_t i) {
    const Buffer& b = problem_.buffers[i];
    if (b.size == 0) return;
    const Bytes offset = packing_.solution.offsets[i];
    const double bottom = static_cast<double>(offset);
    const double top = bottom + static_cast<double>(b.size);
    out_ += StrCat(
        "<rect class=\"buffer\" x=\"", Number(X(b.lower)), "\" y=\"",
        Number(Y(top)), "\" width=\"", Number(X(b.upper) - X(b.lower)),
        "\" height=\"", Number(Y(bottom) - Y(top)), "\" fill=\"",
        b.offset ? kFixedColour : kColours[i % kColours.size()], "\"><title>",
        XmlEscaped(BufferName(problem_, i)), "\n", FormatBytes(b.size), " (",
        b.size, " bytes) at ", offset, b.offset ? ", fixed" : "", "\nlives ",
        Interval(b.lower, b.upper), "</title></rect>\n");
  }

  // Live bytes over time, a step at each birth and death.
  void Curve() {
    std::map<Time, Bytes> changes;
    for (const Buffer& b : problem_.buffers) {
      changes[b.lower] += b.size;
      changes[b.upper] -= b.size;
    }
    std::string points = StrCat(Number(kLeft), ",", Number(CurveY(0)));
    Bytes live = 0;
    for (const auto& [time, change] : changes) {
      const std::string x = Number(X(time));
      points += StrCat(" ", x, ",", Number(CurveY(static_cast<double>(live))));
      live += change;
      points += StrCat(" ", x, ",", Number(CurveY(static_cast<double>(live))));
    }
    points += StrCat(" ", Number(kLeft + kPlotWidth), ",", Number(CurveY(0)));
    out_ += StrCat("<polygon class=\"live\" points=\"", points,
                   "\" fill=\"#76b7b2\" fill-opacity=\".6\" "
                   "stroke=\"#2a7f79\"><title>live bytes</title></polygon>\n");
    const double y = CurveY(static_cast<double>(packing_.solution.height));
    Line("height", y, "#222");
    Text(kLeft - 6, y + 4, "text-anchor=\"end\" fill=\"#444\"", "height");
    Text(kLeft - 6, CurveY(0) + 4, "text-anchor=\"end\" fill=\"#444\"",
         "live bytes");
  }

  const Problem& problem_;
  const Packing& packing_;
  Time first_ = 0;
  Time last_ = 1;
  double top_ = 1;
  std::string out_;
};

}  // namespace

std::string ToSvg(const Problem& problem, const Packing& packing) {
  return Drawing(problem, packing).Draw();
}

}  // namespace stowage
