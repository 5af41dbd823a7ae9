#include "text/normalizer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/errors.h"

namespace stowage::text {
namespace {

using Kind = NormalizerKind;

std::string Run(const std::vector<NormalizerStep>& steps, std::string_view text,
                bool* is_moved = nullptr) {
  const Normalizer normalizer = Normalizer::Create(steps).value();
  Normalizer::Work work = normalizer.NewWork();
  const Result<std::string_view> normal = normalizer.Run(text, false, &work);
  REQUIRE_MESSAGE(normal.ok(), normal.error().message);
  if (is_moved != nullptr) *is_moved = work.is_moved;
  return std::string(*normal);
}

TEST_CASE("each step rewrites what the one before it gives") {
  const NormalizerStep prepend = {.kind = Kind::kPrepend, .content = "▁"};
  const NormalizerStep spaces = {
      .kind = Kind::kReplace, .pattern = " ", .content = "▁"};
  const NormalizerStep strip = {
      .kind = Kind::kStrip, .left = true, .right = true};
  const NormalizerStep lower = {.kind = Kind::kLowercase};
  CHECK(Run({}, "A b") == "A b");
  CHECK(Run({prepend, spaces}, "A b") == "▁A▁b");
  CHECK(Run({prepend, spaces}, "") == "");
  // Steps that write nothing lie between those that do.
  CHECK(Run({lower, strip, spaces, strip, lower, strip, prepend}, " ÀB c ") ==
        "▁àb▁c");
  CHECK(Run({{.kind = Kind::kNfd}, {.kind = Kind::kStripNonspacing}}, "é") ==
        "e");
  CHECK(Run({{.kind = Kind::kNfkc}}, "ﬁ²") == "fi2");
  CHECK(Run({{.kind = Kind::kNmt}}, "a\x01\tb") == "a b");
  CHECK(Run({{.kind = Kind::kClean}}, std::string_view("a\0\r\x7f!", 5)) ==
        "a !");
  CHECK(Run({{.kind = Kind::kSpaceIdeographs}}, "a日b") == "a 日 b");
  CHECK(Run({lower}, "İ") == "i\u0307");
}

TEST_CASE("a text whose begin is left out is known to have moved") {
  const auto moves = [](const NormalizerStep& step, std::string_view text) {
    bool is_moved = false;
    Run({step}, text, &is_moved);
    return is_moved;
  };
  const NormalizerStep strip = {.kind = Kind::kStrip, .left = true};
  CHECK(moves(strip, " a"));
  CHECK_FALSE(moves(strip, "a "));
  const NormalizerStep replace = {
      .kind = Kind::kReplace, .pattern = "ab", .content = "c"};
  CHECK(moves(replace, "ab"));
  CHECK_FALSE(moves(replace, "xab"));
  CHECK(moves({.kind = Kind::kNmt}, "\x01x"));
  CHECK_FALSE(moves({.kind = Kind::kNmt}, "x\x01"));
}

TEST_CASE("steps that double a text again and again end in an error") {
  const std::vector<NormalizerStep> steps(
      40, {.kind = Kind::kReplace, .pattern = "a", .content = "aa"});
  const Normalizer normalizer = Normalizer::Create(steps).value();
  Normalizer::Work work = normalizer.NewWork();
  const auto normal = normalizer.Run("aaaa", false, &work);
  REQUIRE(!normal.ok());
  CHECK(normal.error().code == ErrorCode::kInvalidArgument);
  CHECK(normal.error().message ==
        "[text] a text becomes one of more than 263168 bytes when it is "
        "normalized; expected at most 256 times its own");
}

TEST_CASE("normalizers that cannot be are refused") {
  CHECK(Normalizer::Create({{.kind = Kind::kReplace}}).error().message ==
        "[text] a normalizer replaces the empty text; expected a text or a "
        "pattern of at least a character");
  const auto many = Normalizer::Create(std::vector<NormalizerStep>(65));
  REQUIRE(!many.ok());
  CHECK(many.error().code == ErrorCode::kUnsupported);
  CHECK(many.error().message ==
        "[text] the normalizer has 65 steps; at most 64 are read");
}

}  // namespace
}  // namespace stowage::text
