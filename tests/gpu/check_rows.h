#ifndef STOWAGE_TESTS_GPU_CHECK_ROWS_H_
#define STOWAGE_TESTS_GPU_CHECK_ROWS_H_

// Results of checks of a device, one row a check, as a table and as JSON.
//
//   rows.push_back({.name = "ops f32", .figure = "195 rows", .seconds = 1.5});
//   std::cout << RowsToText(rows);

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stowage::testing {

enum class CheckStatus { kOk, kFailed, kSkipped };
/// "ok", "FAIL", "skipped".
const char* CheckStatusName(CheckStatus status);

struct CheckRow {
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string figure = {};  // what was found, or why not, in one line
  double seconds = 0;
  /// The figure's numbers, under names that include their units.
  nlohmann::ordered_json data = nlohmann::ordered_json::object();

  /// Fails the row; the first reason stands before the figure.
  void Fail(const std::string& why);
};

/// One line a row, in columns.
std::string RowsToText(std::span<const CheckRow> rows);

/// An array of objects: name, status, figure, seconds, and the row's data.
nlohmann::ordered_json RowsToJson(std::span<const CheckRow> rows);

/// The row of such an object; nothing for any other JSON.
std::optional<CheckRow> RowOf(const nlohmann::ordered_json& object);

/// The rows of such an array that are ok; none for any other JSON.
std::vector<CheckRow> OkRowsOf(const nlohmann::ordered_json& array);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_CHECK_ROWS_H_
