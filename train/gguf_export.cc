#include "train/gguf_export.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/quantize.h"
#include "formats/weights_file.h"
#include "nn/gguf_form.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "runtime/checkpoint.h"
#include "runtime/values.h"
#include "train/lora_weights.h"
#include "train/merged_model.h"

namespace stowage {
namespace {

constexpr uint32_t kQuantizationVersion = 2;  // of ggml's blocks
constexpr int64_t kNumbersAtOnce = 1 << 16;   // per thread
constexpr Bytes kBytesAtOnce = 1 << 18;

// The number of rows read at once; all of a vector, since a part could split a block.
int64_t RowsAtOnce(const Shape& shape) {
  if (shape.rank() == 1) return shape[0];
  const int64_t columns = shape.back();
  return std::max<int64_t>(1, kNumbersAtOnce / columns);
}

// The rows from `first` on of a param of that shape, in the file's format.
Status ReadRows(const MergedRows& merged, const Shape& shape,
                const GgufRows& rows, int64_t first, std::span<float> to) {
  if (rows.in_order()) {
    STOWAGE_RETURN_IF_ERROR(merged.Read(first, to));
  } else if (shape.rank() == 1) {
    std::vector<float> whole(to.size());
    STOWAGE_RETURN_IF_ERROR(merged.Read(0, whole));
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = whole[static_cast<size_t>(
          rows.RowOfModel(static_cast<int64_t>(i), shape[0]))];
    }
  } else {
    const auto columns = static_cast<size_t>(shape.back());
    for (size_t at = 0; at < to.size(); at += columns, ++first) {
      STOWAGE_RETURN_IF_ERROR(merged.Read(rows.RowOfModel(first, RowsOf(shape)),
                                          to.subspan(at, columns)));
    }
  }
  if (rows.added != 0) {
    for (float& number : to) number += rows.added;
  }
  return {};
}

// `numbers`, from number `first` of a tensor on, converted to its type.
Status QuantizePart(const GgufTensorToWrite& tensor, int64_t first,
                    std::span<const float> numbers,
                    std::vector<std::byte>* bytes) {
  bytes->resize(static_cast<size_t>(BytesOf(tensor.type, std::ssize(numbers))));
  const Status done = Quantize(tensor.type, numbers, *bytes);
  if (done.ok()) return {};
  return Error{done.error().code,
               StrCat("[gguf] tensor ", Quoted(tensor.name), " ",
                      tensor.shape.ToString(), ", from number ", first,
                      " on: ", done.error().message)};
}

Status WriteQuantized(const GgufTensorToWrite& tensor,
                      std::span<const float> numbers,
                      const OutputFile::WritePart& write) {
  std::vector<std::byte> bytes;
  STOWAGE_RETURN_IF_ERROR(QuantizePart(tensor, 0, numbers, &bytes));
  return write(bytes);
}

// Reads and quantizes parts of a param in all threads, and writes them in order.
Status WriteParts(const GgufTensorToWrite& tensor, const MergedRows& merged,
                  const Shape& shape, const GgufRows& order,
                  const OutputFile::WritePart& write) {
  const int64_t rows = RowsOf(shape), columns = shape.num_elements() / rows;
  const int64_t step = RowsAtOnce(shape);
  struct Part {
    int64_t first = 0;
    std::vector<float> numbers = {};
    std::vector<std::byte> bytes = {};
    Status done = {};
  };
  std::vector<Part> parts(ParallelParts());
  for (int64_t next = 0; next < rows;) {
    size_t count = 0;
    for (; count < parts.size() && next < rows; ++count, next += step) {
      parts[count].first = next;
    }
    ForEachInParallel(count, [&](size_t i) {
      Part& part = parts[i];
      part.numbers.resize(
          static_cast<size_t>(std::min(step, rows - part.first) * columns));
      part.done = ReadRows(merged, shape, order, part.first, part.numbers);
      if (!part.done.ok()) return;
      part.done =
          QuantizePart(tensor, part.first * columns, part.numbers, &part.bytes);
    });
    for (size_t i = 0; i < count; ++i) {
      STOWAGE_RETURN_IF_ERROR(parts[i].done);
      STOWAGE_RETURN_IF_ERROR(write(parts[i].bytes));
    }
  }
  return {};
}

Shape Transposed(const Shape& shape) { return Shape{shape[1], shape[0]}; }

std::vector<float> TransposedMatrix(std::span<const float> matrix, int64_t rows,
                                    int64_t columns) {
  std::vector<float> result(matrix.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      result[static_cast<size_t>(column * rows + row)] =
          matrix[static_cast<size_t>(row * columns + column)];
    }
  }
  return result;
}

}  // namespace

void GgufExport::AddTensorsOfGguf(const PretrainedModel& base,
                                  const std::optional<GgufMix>& mix) {
  const GgufMixFacts facts = MixFactsOf(base.model());
  std::map<std::string_view, size_t> params;  // by the tensors' names
  for (size_t i = 0; i < base.params().size(); ++i) {
    params.emplace(base.tensor(base.params()[i]).name, i);
  }
  // In the order of the file, or of its shards.
  std::vector<WeightTensor> tensors = base.file().tensors();
  std::ranges::sort(tensors, {}, [](const WeightTensor& tensor) {
    return std::pair(tensor.file, tensor.begin);
  });
  for (const WeightTensor& tensor : tensors) {
    GgufTensorToWrite written = {tensor.name, tensor.type, tensor.shape};
    if (mix && IsInMix(tensor.name, tensor.shape)) {
      written.type = TypeInMix(*mix, facts, tensor.name, tensor.shape);
    }
    Source source;
    const WeightTensor* const lies = base.file().Find(tensor.name);
    if (written.type == tensor.type) {
      source.tensor = static_cast<size_t>(lies - base.file().tensors().data());
    }
    if (const auto param = params.find(tensor.name); param != params.end()) {
      source.param = param->second;
      source.rows = base.params()[param->second].in_file;
    }
    tensors_.push_back(std::move(written));
    sources_.push_back(std::move(source));
  }
}

void GgufExport::AddTensorsOfFolder(const PretrainedModel& base,
                                    const GgufMix& mix) {
  const GgufMixFacts facts = MixFactsOf(base.model());
  for (GgufFactors& factors : RopeFactorsInGguf(base)) {
    tensors_.push_back(
        {factors.tensor, WeightType::kF32, Shape{std::ssize(factors.numbers)}});
    sources_.push_back({.numbers = std::move(factors.numbers)});
  }
  for (size_t i = 0; i < base.params().size(); ++i) {
    const PretrainedParam& param = base.params()[i];
    Source source{.param = i};
    source.is_transposed = IsTransposedInGguf(base.model(), param.name);
    source.rows = GgufRowsOf(base.model(), param.name);
    GgufTensorToWrite written = {
        GgufName(base.model(), param.name), WeightType::kF32,
        source.is_transposed ? Transposed(param.shape) : param.shape};
    if (IsInMix(written.name, written.shape)) {
      written.type = TypeInMix(mix, facts, written.name, written.shape);
    }
    tensors_.push_back(std::move(written));
    sources_.push_back(std::move(source));
  }
}

namespace {

Status CheckPredictsTokens(const PretrainedModel& base) {
  if (base.encoder() == nullptr && !base.embeds()) return {};
  return base.file().Fail(
      StrCat("is a model that ", base.embeds() ? "embeds" : "classifies",
             " texts, which is not written as a GGUF file"),
      ErrorCode::kUnsupported);
}

}  // namespace

Result<GgufExport> GgufExport::Plan(const FineTuning& tuning,
                                    const std::optional<GgufMix>& mix,
                                    const GgufMetadata& tokenizer) {
  STOWAGE_CHECK(tuning.options().lora.has_value());
  const PretrainedModel& base = tuning.base();
  STOWAGE_RETURN_IF_ERROR(CheckPredictsTokens(base));
  GgufExport plan;
  if (base.file().gguf() != nullptr) {
    plan.metadata_ = GgufMetadata::Of(*base.file().gguf());
    for (const auto key : {"split.no", "split.count", "split.tensors.count"}) {
      plan.metadata_.Remove(key);
    }
    plan.AddTensorsOfGguf(base, mix);
    if (mix) plan.metadata_.Set("general.file_type", mix->file_type);
  } else {
    STOWAGE_RETURN_IF_ERROR(AddGgufKeys(base, &plan.metadata_));
    const GgufMix usual = mix ? *mix : ParseGgufMix("f16").OrDie();
    plan.AddTensorsOfFolder(base, usual);
    plan.metadata_.Set("general.file_type", usual.file_type);
  }
  plan.metadata_.Set("general.quantization_version", kQuantizationVersion);
  plan.metadata_.SetAll(tokenizer);
  STOWAGE_RETURN_IF_ERROR(plan.CheckTypes(tuning));
  STOWAGE_RETURN_IF_ERROR(plan.CheckBase(base));
  return plan;
}

Status GgufExport::CheckTypes(const FineTuning& tuning) const {
  const PretrainedModel& base = tuning.base();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (CanQuantize(tensors_[i].type) || !sources_[i].param) continue;
    const PretrainedParam& param = base.params()[*sources_[i].param];
    const bool is_adapted = std::ranges::any_of(
        tuning.options().lora->targets, [&](const std::string& target) {
          return MeansLayer(target, param.name);
        });
    if (!is_adapted) continue;
    return base.file().Fail(
        StrCat("has ", Quoted(tensors_[i].name), " in ",
               FormatOf(tensors_[i].type).name,
               ", which is read and not written, and an adapter would be "
               "merged into it; give --merged-type a type, such as q4_k_m"),
        ErrorCode::kUnsupported);
  }
  return {};
}

Status GgufExport::CheckBase(const PretrainedModel& base) const {
  std::vector<float> numbers;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!sources_[i].param) continue;
    const PretrainedParam& param = base.params()[*sources_[i].param];
    const int64_t rows = param.rows();
    const int64_t columns = param.shape.num_elements() / rows;
    const int64_t most = RowsAtOnce(param.shape);
    for (int64_t first = 0; first < rows; first += most) {
      numbers.resize(
          static_cast<size_t>(std::min(most, rows - first) * columns));
      STOWAGE_RETURN_IF_ERROR(base.ReadFloats(param, first, numbers));
      const auto bytes = std::as_bytes(std::span(numbers));
      const auto wrong = FindNonFinite(DType::kF32, bytes);
      if (!wrong) continue;
      return base.file().Fail(
          StrCat("has ", FloatText(DType::kF32, bytes, *wrong), " at number ",
                 first * columns + *wrong, " of ",
                 Quoted(base.tensor(param).name),
                 "; a GGUF file is written of finite weights"),
          ErrorCode::kNotFinite);
    }
  }
  return {};
}

Status GgufExport::Write(const FineTuning& tuning, const Runner& runner,
                         const OutputFile& file) const {
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner));
  return WriteGguf(file, metadata_, tensors_,
                   [&](size_t at, const OutputFile::WritePart& write) {
                     return WriteTensor(tuning, runner, at, write);
                   });
}

Status GgufExport::WriteTensor(const FineTuning& tuning, const Runner& runner,
                               size_t at,
                               const OutputFile::WritePart& write) const {
  const PretrainedModel& base = tuning.base();
  const GgufTensorToWrite& tensor = tensors_[at];
  const Source& source = sources_[at];
  std::optional<MergedRows> merged;
  if (source.param) {
    STOWAGE_ASSIGN_OR_RETURN(
        merged, MergedRows::Of(tuning, runner, base.params()[*source.param]));
  }
  if (source.tensor && !(merged && merged->is_adapted())) {
    const WeightTensor& lies = base.file().tensors()[*source.tensor];
    std::vector<std::byte> bytes;
    for (Bytes begin = 0; begin < lies.bytes; begin += std::ssize(bytes)) {
      bytes.resize(
          static_cast<size_t>(std::min(kBytesAtOnce, lies.bytes - begin)));
      STOWAGE_RETURN_IF_ERROR(base.file().ReadBytes(lies, begin, bytes));
      STOWAGE_RETURN_IF_ERROR(write(bytes));
    }
    return {};
  }
  if (!merged) return WriteQuantized(tensor, source.numbers, write);
  const Shape& shape = base.params()[*source.param].shape;
  if (!source.is_transposed) {
    return WriteParts(tensor, *merged, shape, source.rows, write);
  }
  std::vector<float> matrix(static_cast<size_t>(shape.num_elements()));
  STOWAGE_RETURN_IF_ERROR(merged->Read(0, matrix));
  return WriteQuantized(tensor, TransposedMatrix(matrix, shape[0], shape[1]),
                        write);
}

Status CheckGgufAdapter(const FineTuning& tuning) {
  STOWAGE_CHECK(tuning.options().lora.has_value());
  STOWAGE_RETURN_IF_ERROR(CheckPredictsTokens(tuning.base()));
  if (!tuning.options().lora->dora) return {};
  return Error{ErrorCode::kUnsupported,
               "[gguf] llama.cpp's adapters have no magnitudes, which DoRA "
               "trains; save the adapter to a folder, or --save-merged"};
}

Status SaveAdapterGguf(const FineTuning& tuning, const Runner& runner,
                       const OutputFile& file) {
  STOWAGE_RETURN_IF_ERROR(CheckGgufAdapter(tuning));
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner));
  const PretrainedModel& base = tuning.base();
  const std::string& family = base.model().family;
  const LlamaFamily* const llama = FindLlamaFamily(family);
  GgufMetadata metadata;
  metadata.Set("general.architecture",
               llama == nullptr ? family : std::string(llama->gguf));
  metadata.Set("general.type", "adapter");
  metadata.Set("general.file_type", uint32_t{0});
  metadata.Set("general.quantization_version", kQuantizationVersion);
  metadata.Set("adapter.type", "lora");
  const LoraRules& rules = *tuning.options().lora;
  // A PiSSA adapter has twice the rank relative to the original base (train/lora_weights.h).
  const int64_t rank = rules.rank * (tuning.pissa() == nullptr ? 1 : 2);
  // llama.cpp divides it by the rank.
  metadata.Set(
      "adapter.lora.alpha",
      static_cast<float>(LoraFactor(rules) * static_cast<double>(rank)));
  std::vector<GgufTensorToWrite> tensors;
  struct Part {
    const PretrainedParam* param = nullptr;
    bool is_down = false;
  };
  std::vector<Part> parts;
  for (const PretrainedParam& param : base.params()) {
    const LoraParams names = LoraParamsOf(param.name);
    const std::optional<ValueId> down = runner.graph().Find(names.down);
    const std::optional<ValueId> up = runner.graph().Find(names.up);
    if (!down || !up) continue;
    const std::string weight = GgufName(base.model(), param.name);
    const auto& graph = runner.graph();
    tensors.push_back({weight + ".lora_a",
                       WeightType::kF32,
                       {rank, graph.value(*down).type.shape[1]}});
    parts.push_back({&param, /*is_down=*/true});
    tensors.push_back({weight + ".lora_b",
                       WeightType::kF32,
                       {graph.value(*up).type.shape[0], rank}});
    parts.push_back({&param, /*is_down=*/false});
  }
  return WriteGguf(
      file, metadata, tensors,
      [&](size_t at, const OutputFile::WritePart& write) -> Status {
        const auto [param, is_down] = parts[at];
        STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices lora,
                                 ReadLoraMatrices(tuning, runner, *param));
        if (is_down) return write(std::as_bytes(std::span(lora.down)));
        const GgufRows rows = GgufRowsOf(base.model(), param->name);
        const auto columns = static_cast<size_t>(rank);
        for (int64_t row = 0; row < tensors[at].shape[0]; ++row) {
          const auto from =
              static_cast<size_t>(rows.RowOfModel(row, tensors[at].shape[0]));
          STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(
              std::span(lora.up).subspan(from * columns, columns))));
        }
        return {};
      });
}

}  // namespace stowage
