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

std::optional<CheckRow> RowOf(const nlohmann::ordered_json& object) {
  if (!object.is_object()) return {};
  const auto text = [&](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string()
               ? found->get<std::string>()
               : std::string();
  };
  CheckRow row{.name = text("name"), .figure = text("figure"), .data = object};
  const std::string status = text("status");
  bool known = false;
  for (const CheckStatus one :
       {CheckStatus::kOk, CheckStatus::kFailed, CheckStatus::kSkipped}) {
    if (status != CheckStatusName(one)) continue;
    row.status = one;
    known = true;
  }
  if (!known) return {};
  if (const auto found = object.find("seconds");
      found != object.end() && found->is_number()) {
    row.seconds = found->get<double>();
  }
  for (const char* key : {"name", "status", "figure", "seconds"}) {
    row.data.erase(key);
  }
  return row;
}

std::vector<CheckRow> OkRowsOf(const nlohmann::ordered_json& array) {
  std::vector<CheckRow> rows;
  if (!array.is_array()) return rows;
  for (const nlohmann::ordered_json& object : array) {
    std::optional<CheckRow> row = RowOf(object);
    if (row.has_value() && row->status == CheckStatus::kOk) {
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

}  // namespace stowage::testing
