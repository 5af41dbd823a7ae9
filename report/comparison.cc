#include "report/comparison.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/strings.h"
#include "report/format.h"
#include "report/report_json.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

std::string Row(std::string_view figure, std::string_view a, std::string_view b,
                std::string_view difference) {
  return StrCat("| ", PadRight(figure, 18), " | ", PadLeft(a, 15), " | ",
                PadLeft(b, 15), " | ", PadLeft(difference, 18), " |\n");
}

std::string Rule(char c) { return StrCat("|", std::string(77, c), "|\n"); }

std::string BytesRow(std::string_view figure, Bytes a, Bytes b) {
  const Bytes more = b - a;
  std::string difference = StrCat(more > 0   ? "+"
                                  : more < 0 ? "-"
                                             : "",
                                  FormatBytes(more < 0 ? -more : more));
  if (a != 0)
    difference += StrCat(", ", Fixed(Report::Percent(more, a), 1), " %");
  return Row(figure, FormatBytes(a), FormatBytes(b), difference);
}

std::string CountRow(std::string_view figure, size_t a, size_t b) {
  const int64_t more = static_cast<int64_t>(b) - static_cast<int64_t>(a);
  return Row(figure, StrCat(a), StrCat(b), StrCat(more > 0 ? "+" : "", more));
}

}  // namespace

std::string ComparisonText(const NamedReport& a, const NamedReport& b) {
  const Report& x = *a.report;
  const Report& y = *b.report;
  std::string out = Rule('=');
  out += Row("Figure", a.name, b.name, "difference");
  out += Rule('-');
  out += BytesRow("arena", x.arena, y.arena);
  if (x.host > 0 || y.host > 0) out += BytesRow("host memory", x.host, y.host);
  out += BytesRow("lower bound", x.lower_bound, y.lower_bound);
  out += BytesRow("no reuse", x.no_reuse, y.no_reuse);
  out += BytesRow("saved", x.saved(), y.saved());
  out +=
      BytesRow("caching allocator", x.caching_allocator, y.caching_allocator);
  out += Rule('-');
  for (const Region region : kRegions) {
    out += BytesRow(RegionName(region), BytesOf(x.regions, region),
                    BytesOf(y.regions, region));
  }
  out += Rule('-');
  out += CountRow("nodes", x.nodes.size(), y.nodes.size());
  out += CountRow("buffers", x.buffers.size(), y.buffers.size());
  out += Row("GFLOP a run", Fixed(x.flops / 1e9, 3), Fixed(y.flops / 1e9, 3),
             Fixed((y.flops - x.flops) / 1e9, 3));
  out += Rule('=');
  return out;
}

Json ComparisonJson(const NamedReport& a, const NamedReport& b) {
  Json json = Json::object();
  json["plans"] = Json::array();
  for (const NamedReport& plan : {a, b}) {
    Json figures = Json::object();
    figures["name"] = plan.name;
    figures.update(FiguresJson(*plan.report, plan.report->peak_live.size()));
    json["plans"].push_back(std::move(figures));
  }
  Json difference = Json::object();
  for (const auto& [name, value] : json["plans"][0].items()) {
    if (!value.is_number_integer() && !value.is_number_unsigned()) continue;
    difference[name] =
        json["plans"][1][name].get<int64_t>() - value.get<int64_t>();
  }
  json["difference"] = std::move(difference);
  return json;
}

}  // namespace stowage
