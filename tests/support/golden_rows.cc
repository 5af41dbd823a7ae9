#include "tests/support/golden_rows.h"

#include <doctest/doctest.h>

#include <fstream>

namespace stowage {

std::vector<OpGolden> ReadOpGoldens(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  REQUIRE(std::getline(in, line));
  REQUIRE(line == "case,what,index,value");
  std::vector<OpGolden> rows;
  while (std::getline(in, line)) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    REQUIRE(fields.size() == 4);
    rows.push_back({fields[0], fields[1], fields[2], std::stod(fields[3])});
  }
  return rows;
}

}  // namespace stowage
