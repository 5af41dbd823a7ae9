#include "report/tensorboard.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace stowage {
namespace {

// The vectors of RFC 3720, appendix B.4.
TEST_CASE("checksums are those of RFC 3720") {
  CHECK(Crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string up, down;
  for (char i = 0; i < 32; ++i) up.push_back(i);
  for (char i = 31; i >= 0; --i) down.push_back(i);
  CHECK(Crc32c(up) == 0x46dd794e);
  CHECK(Crc32c(down) == 0x113fdb5c);
  CHECK(Crc32c("") == 0);
}

// By tests/goldens/make_tensorboard_goldens.py.
TEST_CASE("a file is byte for byte what TensorBoard's own writer makes") {
  std::string file = VersionRecord(1700000000.25);
  const std::vector<EventScalar> first = {{"loss", 2.25f}, {"lr", 1e-3f}};
  file += ScalarsRecord(1700000001.5, 1, first);
  const std::vector<EventScalar> infinite = {
      {"loss", std::numeric_limits<float>::infinity()}};
  file += ScalarsRecord(1700000002.5, 300, infinite);
  file += SessionStartRecord(1700000003, 200);
  const std::vector<EventScalar> evaluated = {{"validation_loss", -0.5f},
                                              {"arena_bytes", 3e9f}};
  file += ScalarsRecord(1700000004, 200, evaluated);
  const std::string golden = testing::ReadAll("tests/goldens/events.tfevents");
  REQUIRE(!golden.empty());
  CHECK(file == golden);
}

}  // namespace
}  // namespace stowage
