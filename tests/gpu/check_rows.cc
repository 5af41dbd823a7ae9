#include "tests/gpu/check_rows.h"

#include <iomanip>
#include <sstream>
#include <utility>

#include "base/strings.h"

namespace stowage::testing {

const char* CheckStatusName(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kFailed:
      return "FAIL";
    case CheckStatus::kSkipped:
      return "skipped";
  }
  return "";
}

void CheckRow::Fail(const std::string& why) {
  if (status == CheckStatus::kFailed) return;
  status = CheckStatus::kFailed;
  figure = figure.empty() ? why : StrCat(why, "; ", figure);
}

std::string RowsToText(std::span<const CheckRow> rows) {
  // As tools/gpu_check.sh prints the rows of other programs.
  constexpr int kNameWidth = 28;
  std::ostringstream text;
  const auto line = [&](const auto& name, const auto& status,
                        const auto& seconds, const auto& figure) {
    text << std::left << std::setw(kNameWidth) << name << "  " << std::setw(7)
         << status << std::right << std::setw(9) << seconds << "  " << figure
         << '\n';
  };
  line("check", "status", "seconds", "found");
  for (const CheckRow& row : rows) {
    line(row.name, CheckStatusName(row.status), Fixed(row.seconds, 1),
         row.figure);
  }
  return text.str();
}

nlohmann::ordered_json RowsToJson(std::span<const CheckRow> rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const CheckRow& row : rows) {
    nlohmann::ordered_json object = {{"name", row.name},
                                     {"status", CheckStatusName(row.status)},
                                     {"figure", row.figure},
                                     {"seconds", row.seconds}};
    object.update(row.data);
    array.push_back(std::move(object));
  }
  return array;
}

std::vector<CheckRow> OkRowsOf(const nlohmann::ordered_json& array) {
  std::vector<CheckRow> rows;
  if (!array.is_array()) return rows;
  for (const nlohmann::ordered_json& object : array) {
    if (!object.is_object() || object.value("status", "") != "ok") continue;
    CheckRow row{.name = object.value("name", ""),
                 .figure = object.value("figure", ""),
                 .seconds = object.value("seconds", 0.0),
                 .data = object};
    for (const char* key : {"name", "status", "figure", "seconds"}) {
      row.data.erase(key);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace stowage::testing
