#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/quantize.h"

namespace stowage {
namespace {

std::optional<WeightType> TypeNamed(std::string_view name) {
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    if (FormatOf(type).name == name) return type;
  }
  return {};
}

std::vector<std::byte> Bytes16(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < hex.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(
        std::stoul(std::string(hex.substr(at, 2)), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> Floats(std::string_view hex) {
  std::vector<float> floats;
  for (size_t at = 0; at < hex.size(); at += 8) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(
        std::stoul(std::string(hex.substr(at, 8)), nullptr, 16))));
  }
  return floats;
}

// Of blocks, beside the numbers that they stand for.
double SquaredError(WeightType type, const std::vector<std::byte>& blocks,
                    const std::vector<float>& numbers) {
  std::vector<float> decoded(numbers.size());
  Dequantize(type, blocks, decoded);
  double error = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double difference = double{decoded[i]} - numbers[i];
    error += difference * difference;
  }
  return error;
}

struct Row {
  std::string name;
  WeightType type = WeightType::kF32;
  std::vector<float> numbers;
  std::vector<std::byte> blocks;
};

// tests/goldens/make_quantize_goldens.py
std::vector<Row> Goldens() {
  std::ifstream in("tests/goldens/quantize.csv");
  std::string line;
  REQUIRE(std::getline(in, line));
  std::vector<Row> rows;
  std::vector<float> numbers;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string name, type, floats, blocks;
    std::getline(fields, name, ',');
    std::getline(fields, type, ',');
    std::getline(fields, floats, ',');
    std::getline(fields, blocks, ',');
    if (!floats.empty()) numbers = Floats(floats);
    REQUIRE(TypeNamed(type));
    rows.push_back({name, *TypeNamed(type), numbers, Bytes16(blocks)});
  }
  REQUIRE(rows.size() == 110);
  return rows;
}

std::vector<std::byte> Quantized(WeightType type,
                                 const std::vector<float>& numbers) {
  std::vector<std::byte> blocks(
      static_cast<size_t>(BytesOf(type, std::ssize(numbers))));
  const Status done = Quantize(type, numbers, blocks);
  REQUIRE_MESSAGE(done.ok(), done.error().message);
  return blocks;
}

bool IsK(WeightType type) { return FormatOf(type).numbers == 256; }

TEST_CASE("blocks of 32 and floats have the bits that ggml's package gives") {
  for (const Row& row : Goldens()) {
    if (IsK(row.type)) continue;
    INFO(row.name << " " << std::string(FormatOf(row.type).name));
    CHECK(Quantized(row.type, row.numbers) == row.blocks);
  }
}

TEST_CASE("blocks of 256 have no larger squared error than ggml's") {
  for (const Row& row : Goldens()) {
    if (!IsK(row.type)) continue;
    INFO(row.name << " " << std::string(FormatOf(row.type).name));
    const double error =
        SquaredError(row.type, Quantized(row.type, row.numbers), row.numbers);
    const double golden = SquaredError(row.type, row.blocks, row.numbers);
    CHECK(error <= golden * (1 + 1e-9));
  }
}

TEST_CASE("what is decoded from blocks is the numbers, to a step of the type") {
  // A step is the range of 32 numbers, 2 here, over the codes that there are.
  const std::pair<WeightType, double> steps[] = {
      {WeightType::kQ4_0, 2.0 / 15},  {WeightType::kQ4_1, 2.0 / 15},
      {WeightType::kQ5_0, 2.0 / 31},  {WeightType::kQ5_1, 2.0 / 31},
      {WeightType::kQ8_0, 2.0 / 254}, {WeightType::kQ4_K, 2.0 / 15},
      {WeightType::kQ5_K, 2.0 / 31},  {WeightType::kQ6_K, 2.0 / 63}};
  std::vector<float> numbers;
  for (int i = 0; i < 512; ++i) {
    numbers.push_back(static_cast<float>(std::sin(0.7 * i)));
  }
  for (const auto& entry : steps) {
    const WeightType type = entry.first;
    const double step = entry.second;
    INFO(std::string(FormatOf(type).name));
    std::vector<float> decoded(numbers.size());
    Dequantize(type, Quantized(type, numbers), decoded);
    double largest = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      largest = std::max(largest, std::abs(double{decoded[i]} - numbers[i]));
    }
    CHECK(largest < 1.1 * step);
    CHECK(largest > step / 8);
  }
}

TEST_CASE("numbers below what a scale can be become zeros") {
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    if (type == WeightType::kF32 || type == WeightType::kBF16) continue;
    if (!CanQuantize(type)) continue;
    INFO(std::string(FormatOf(type).name));
    std::vector<float> numbers(256, 1e-42f);
    numbers[3] = -1e-45f;
    std::vector<float> decoded(256, 1.0f);
    Dequantize(type, Quantized(type, numbers), decoded);
    for (const float number : decoded) CHECK(number == 0.0f);
  }
}

TEST_CASE("numbers that a type cannot hold are refused, each with its place") {
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    if (!CanQuantize(type)) continue;
    INFO(std::string(FormatOf(type).name));
    std::vector<std::byte> blocks(static_cast<size_t>(BytesOf(type, 512)));
    std::vector<float> numbers(512, 0.5f);
    numbers[300] = std::numeric_limits<float>::quiet_NaN();
    Status done = Quantize(type, numbers, blocks);
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().code == ErrorCode::kNotFinite);
    CHECK(done.error().message ==
          "[quantize] number 300 is nan; expected finite numbers");
    numbers[300] = -std::numeric_limits<float>::infinity();
    done = Quantize(type, numbers, blocks);
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().message ==
          "[quantize] number 300 is -inf; expected finite numbers");
    numbers[300] = -std::numeric_limits<float>::max();
    numbers[301] = 3e38f;
    done = Quantize(type, numbers, blocks);
    if (type == WeightType::kF32) {
      CHECK(done.ok());
      continue;
    }
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().code == ErrorCode::kInvalidArgument);
    CHECK(done.error().message ==
          "[quantize] number 300 is -3.4028234663852886e+38, too large for " +
              std::string(FormatOf(type).name) + "; F32 holds it");
  }
}

uint32_t Hex(std::string_view digits) {
  return static_cast<uint32_t>(std::stoul(std::string(digits), nullptr, 16));
}

// tests/goldens/make_gguf_goldens.py
TEST_CASE(
    "blocks of every type are the numbers that ggml's package makes of them") {
  std::ifstream in("tests/goldens/quantized.csv");
  std::string line;
  REQUIRE(std::getline(in, line));
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const BlockFormat& format = FormatOf(type);
    INFO(std::string(format.name));
    REQUIRE(std::getline(in, line));
    const size_t first = line.find(','), second = line.rfind(',');
    REQUIRE(line.substr(0, first) == format.name);
    const std::string hex = line.substr(first + 1, second - first - 1);
    const std::string golden = line.substr(second + 1);
    std::vector<std::byte> bytes;
    for (size_t at = 0; at < hex.size(); at += 2) {
      bytes.push_back(static_cast<std::byte>(Hex(hex.substr(at, 2))));
    }
    std::vector<float> numbers(golden.size() / 8);
    REQUIRE(numbers.size() > 1);
    REQUIRE(BytesOf(type, std::ssize(numbers)) == std::ssize(bytes));
    Dequantize(type, bytes, numbers);
    int wrong = 0;
    for (size_t at = 0; at < numbers.size(); ++at) {
      // Equal as numbers: 8 - 8 may be a zero of either sign.
      const auto expected = std::bit_cast<float>(Hex(golden.substr(at * 8, 8)));
      if (numbers[at] != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
  CHECK_FALSE(std::getline(in, line));
}

TEST_CASE("a type's blocks have the sizes that are published") {
  // Bits a number, of ggml's table: 4.5, 5, 5.5, 6, 8.5, 4.5, 5.5, 6.5625, and 2.625,
  // 3.4375, 4.5, 4.25, 1.6875, 2.0625, 4.25.
  CHECK(BytesOf(WeightType::kQ4_0, 256) * 8 == 1152);
  CHECK(BytesOf(WeightType::kQ4_1, 256) * 8 == 1280);
  CHECK(BytesOf(WeightType::kQ5_0, 256) * 8 == 1408);
  CHECK(BytesOf(WeightType::kQ5_1, 256) * 8 == 1536);
  CHECK(BytesOf(WeightType::kQ8_0, 256) * 8 == 2176);
  CHECK(BytesOf(WeightType::kQ4_K, 256) * 8 == 1152);
  CHECK(BytesOf(WeightType::kQ5_K, 256) * 8 == 1408);
  CHECK(BytesOf(WeightType::kQ6_K, 256) * 8 == 1680);
  CHECK(BytesOf(WeightType::kQ2_K, 256) * 8 == 672);
  CHECK(BytesOf(WeightType::kQ3_K, 256) * 8 == 880);
  CHECK(BytesOf(WeightType::kIQ4_NL, 256) * 8 == 1152);
  CHECK(BytesOf(WeightType::kIQ4_XS, 256) * 8 == 1088);
  CHECK(BytesOf(WeightType::kTQ1_0, 256) * 8 == 432);
  CHECK(BytesOf(WeightType::kTQ2_0, 256) * 8 == 528);
  CHECK(BytesOf(WeightType::kMXFP4, 256) * 8 == 1088);
}

}  // namespace
}  // namespace stowage
