#ifndef STOWAGE_TESTS_GPU_CHECK_ROWS_H_
#define STOWAGE_TESTS_GPU_CHECK_ROWS_H_

// Stores the results of device checks as rows, and formats the rows as a table and as JSON.
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
/// Returns "ok", "FAIL" or "skipped".
const char* CheckStatusName(CheckStatus status);

struct CheckRow {
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string figure = {};  // the result or the failure, in one line
  double seconds = 0;
  /// The numbers in `figure`, under names that include their units.
  nlohmann::ordered_json data = nlohmann::ordered_json::object();

  /// Fails the row and prepends `why` to `figure`. Does nothing if the row has failed already.
  void Fail(const std::string& why);
};

/// Returns a table with a header line and one line per row.
std::string RowsToText(std::span<const CheckRow> rows);

/// Returns an array with an object per row. Its keys are name, status, figure, seconds, and the
/// keys of `data`.
nlohmann::ordered_json RowsToJson(std::span<const CheckRow> rows);

/// Parses an object that RowsToJson wrote. Returns nullopt if `object` is not one.
std::optional<CheckRow> RowOf(const nlohmann::ordered_json& object);

/// Parses an array that RowsToJson wrote, and returns its rows with status kOk. Elements that are
/// not rows are ignored. Returns no rows if `array` is not an array.
std::vector<CheckRow> OkRowsOf(const nlohmann::ordered_json& array);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_CHECK_ROWS_H_
