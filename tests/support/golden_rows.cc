#include "tests/support/golden_rows.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>

namespace stowage {
namespace {

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

std::vector<std::vector<std::string>> ReadGoldenRows(
    const std::string& path, const std::string& header) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), "cannot read ", path);
  std::string line;
  std::getline(in, line);
  REQUIRE(line == header);
  const size_t count = Fields(header).size();
  std::vector<std::vector<std::string>> rows;
  while (std::getline(in, line)) {
    rows.push_back(Fields(line));
    REQUIRE(rows.back().size() == count);
  }
  return rows;
}

std::vector<OpGolden> ReadOpGoldens(const std::string& path) {
  std::vector<OpGolden> goldens;
  for (const std::vector<std::string>& row :
       ReadGoldenRows(path, "case,what,index,value")) {
    goldens.push_back({row[0], row[1], row[2], std::stod(row[3])});
  }
  return goldens;
}

}  // namespace stowage
