#include "base/bytes.h"

#include <doctest/doctest.h>

namespace stowage {
namespace {

TEST_CASE("a size with a binary unit parses to that many bytes") {
  CHECK(ParseBytes("64MiB").value() == 67108864);
}

}  // namespace
}  // namespace stowage
