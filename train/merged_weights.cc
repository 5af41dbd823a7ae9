#include "train/merged_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "base/result.h"
#include "formats/safetensors.h"
#include "math/small_floats.h"
#include "nn/layers.h"
#include "nn/lora.h"
#include "runtime/checkpoint.h"
#include "runtime/values.h"

namespace stowage {
namespace {

// The numbers as elements of `dtype`.
std::vector<std::byte> Stored(std::span<const float> numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() *
                               static_cast<size_t>(SizeOf(dtype)));
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t bits = dtype == DType::kF16
                              ? math::FloatToHalf(numbers[i])
                              : math::FloatToBFloat16(numbers[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof(bits));
  }
  return bytes;
}

const ValueInfo& InfoOf(const Runner& runner, std::string_view param) {
  return runner.graph().value(*runner.graph().Find(param));
}

// Rows that are made at a time.
constexpr int64_t kRowsOfMerged = 64;

}  // namespace

Result<MergedRows> MergedRows::Of(const FineTuning& tuning,
                                  const Runner& runner,
                                  const PretrainedParam& param) {
  MergedRows rows(tuning.base(), param);
  STOWAGE_ASSIGN_OR_RETURN(rows.lora_, ReadLoraMatrices(tuning, runner, param));
  if (!rows.is_adapted()) return rows;
  const LoraRules& rules = *tuning.options().lora;
  rows.factor_ = LoraFactor(rules);
  if (rules.dora) {
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<float> magnitudes,
        ReadFloats(runner, LoraParamsOf(param.name).magnitude));
    STOWAGE_RETURN_IF_ERROR(rows.FindScales(magnitudes));
  }
  return rows;
}

Status MergedRows::FindScales(std::span<const float> magnitudes) {
  const int64_t rows = param_->rows();
  const int64_t columns = param_->shape.num_elements() / rows;
  std::vector<double> squares(magnitudes.size());
  std::vector<float> numbers(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    STOWAGE_RETURN_IF_ERROR(Read(row, numbers));
    for (int64_t column = 0; column < columns; ++column) {
      const double number = double{numbers[static_cast<size_t>(column)]};
      squares[static_cast<size_t>(lora_.rows_are_outputs ? row : column)] +=
          number * number;
    }
  }
  std::vector<double> scales(magnitudes.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = double{magnitudes[i]} / std::sqrt(squares[i]);
  }
  scales_ = std::move(scales);
  return {};
}

Status MergedRows::Read(int64_t first, std::span<float> to) const {
  STOWAGE_RETURN_IF_ERROR(base_->ReadFloats(*param_, first, to));
  if (!is_adapted()) return {};
  const auto columns =
      static_cast<size_t>(param_->shape.num_elements() / param_->rows());
  for (size_t at = 0; at < to.size(); at += columns, ++first) {
    AddShare(first, to.subspan(at, columns));
  }
  return {};
}

void MergedRows::AddShare(int64_t row, std::span<float> numbers) const {
  lora_.AddTo(row, factor_, numbers);
  for (size_t i = 0; i < numbers.size() && !scales_.empty(); ++i) {
    const size_t out = lora_.rows_are_outputs ? static_cast<size_t>(row) : i;
    numbers[i] = static_cast<float>(scales_[out] * double{numbers[i]});
  }
}

Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file) {
  const PretrainedModel& base = tuning.base();
  STOWAGE_CHECK(tuning.options().lora.has_value() || base.encoder() != nullptr);
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner));
  const DType dtype = tuning.options().dtype;
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  Bytes end = 0;
  for (const PretrainedParam& param : base.params()) {
    const std::string name = base.PublishedName(param.name);
    const bool is_apart = IsOfExperts(param.name);
    const TensorType type = {
        dtype, is_apart ? Shape{param.shape[1], param.shape[2]} : param.shape};
    for (int64_t i = 0; i < (is_apart ? param.shape[0] : 1); ++i) {
      header.tensors.push_back({.name = is_apart ? NameOfExpert(name, i) : name,
                                .type = type,
                                .begin = end,
                                .end = end + type.bytes()});
      end += type.bytes();
    }
  }
  for (const std::string& name : base.new_params()) {
    const TensorType& type = InfoOf(runner, name).type;
    header.tensors.push_back({.name = base.PublishedName(name),
                              .type = type,
                              .begin = end,
                              .end = end + type.bytes()});
    end += type.bytes();
  }
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  return file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(&length, 1))));
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(text))));
    const auto write_trained = [&](const std::string& name) {
      return ReadInParts(
          runner, InfoOf(runner, name),
          [&](Bytes, std::span<const std::byte> part) { return write(part); });
    };
    for (const PretrainedParam& param : base.params()) {
      if (tuning.IsTrained(param.name)) {
        STOWAGE_RETURN_IF_ERROR(write_trained(param.name));
        continue;
      }
      STOWAGE_ASSIGN_OR_RETURN(const MergedRows merged,
                               MergedRows::Of(tuning, runner, param));
      const int64_t rows = param.rows();
      const int64_t columns = param.shape.num_elements() / rows;
      // A vector is read whole, lest a block be cut.
      const int64_t most = param.shape.rank() == 1 ? rows : kRowsOfMerged;
      std::vector<float> numbers;
      for (int64_t first = 0; first < rows; first += most) {
        numbers.resize(
            static_cast<size_t>(std::min(most, rows - first) * columns));
        STOWAGE_RETURN_IF_ERROR(merged.Read(first, numbers));
        STOWAGE_RETURN_IF_ERROR(write(Stored(numbers, dtype)));
      }
    }
    for (const std::string& name : base.new_params()) {
      STOWAGE_RETURN_IF_ERROR(write_trained(name));
    }
    return {};
  });
}

}  // namespace stowage
