#include "train/fine_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "runtime/values.h"
#include "train/lora_weights.h"

namespace stowage {

namespace {

// The bytes read at a time; a longer row is read whole.
constexpr Bytes kWindow = 256 * 1024;

// The type of params that has the bytes of the file's numbers; absent for quantized blocks.
std::optional<DType> SameAs(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return DType::kF32;
    case WeightType::kF16:
      return DType::kF16;
    case WeightType::kBF16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

// The frozen matrices that are smaller in the file than in `dtype`, and that `graph` can read in
// the file's format.
WeightTypes InBlocks(const PretrainedModel& base, const Graph& graph,
                     DType dtype) {
  const std::vector<std::string> readable = ReadableInBlocks(graph);
  WeightTypes types;
  for (const PretrainedParam& param : base.params()) {
    if (std::ranges::find(readable, param.name) == readable.end()) continue;
    if (base.encoder() != nullptr && IsHeadParam(*base.encoder(), param.name)) {
      continue;  // it is trained
    }
    const WeightType type = base.tensor(param).type;
    const std::optional<DType> same = SameAs(type);
    if (!same || SizeOf(*same) < SizeOf(dtype)) types.emplace(param.name, type);
  }
  return types;
}

// DoRA's frozen params (nn/lora.h).
std::vector<ValueInfo> SquaredNormsOf(const Graph& graph) {
  std::vector<ValueInfo> norms;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const auto norm =
        graph.Find(LoraParamsOf(graph.value(id).name).squared_norm);
    if (norm) norms.push_back(graph.value(*norm));
  }
  return norms;
}

// All linear layers but the head.
std::vector<std::string> UsualTargets(const PretrainedModel& base) {
  if (base.encoder() != nullptr) return {"*.layer.*.weight"};
  const auto* const llama = std::get_if<LlamaConfig>(&base.model().config);
  if (llama == nullptr) {
    return {"*.c_attn.weight", "*.c_proj.weight", "*.c_fc.weight"};
  }
  if (llama->mlp != MlpLayers::kPlain) return {"*_proj.weight"};
  const LlamaNames& names = llama->names;
  std::vector<std::string> targets;
  for (const std::string_view layer :
       {names.qkv, names.out, names.up, names.down}) {
    targets.push_back(StrCat("*.", layer, ".weight"));
  }
  return targets;
}

// The number of rows read at a time.
int64_t RowsAtATime(Bytes row, int64_t rows) {
  return std::clamp(kWindow / row, int64_t{1}, rows);
}

// The f16 scales of a block (math/weight_blocks.h): their offset and number.
struct Scales {
  Bytes begin = 0;
  int64_t count = 1;
};

Scales ScalesOf(WeightType type) {
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {.count = 2};
    case WeightType::kQ6_K:
      return {.begin = 208};
    case WeightType::kQ2_K:
      return {.begin = 80, .count = 2};
    case WeightType::kQ3_K:
      return {.begin = 108};
    case WeightType::kTQ1_0:
      return {.begin = 52};
    case WeightType::kTQ2_0:
      return {.begin = 64};
    case WeightType::kMXFP4:
      return {.count = 0};
    default:
      return {};
  }
}

// The first number of an MXFP4 block beyond f32, if any: the largest scales, exponents of 8
// bits, overflow.
std::optional<float> NonFiniteOfMxfp4(std::span<const std::byte> block) {
  std::array<float, 32> numbers;
  Dequantize(WeightType::kMXFP4, block, numbers);
  const auto wrong = std::ranges::find_if_not(
      numbers, [](float number) { return std::isfinite(number); });
  if (wrong == numbers.end()) return std::nullopt;
  return *wrong;
}

Error NotFinite(const PretrainedModel& base, const PretrainedParam& param,
                std::string_view number, std::string_view where) {
  return base.file().Fail(StrCat("has ", number, " ", where, " of ",
                                 Quoted(base.tensor(param).name),
                                 "; weights must be finite"));
}

// Checks that the numbers of whole rows, in the file's format, are finite.
Status CheckBytes(const PretrainedModel& base, const PretrainedParam& param,
                  int64_t first_row, std::span<const std::byte> part) {
  const WeightType type = base.tensor(param).type;
  if (const std::optional<DType> same = SameAs(type)) {
    if (const auto index = FindNonFinite(*same, part)) {
      const int64_t row = param.shape.num_elements() / param.rows();
      return NotFinite(base, param, FloatText(*same, part, *index),
                       StrCat("at element ", first_row * row + *index));
    }
    return {};
  }
  const Scales scales = ScalesOf(type);
  const BlockFormat& format = FormatOf(type);
  for (Bytes block = 0; block < std::ssize(part); block += format.bytes) {
    const auto of_block =
        part.subspan(static_cast<size_t>(block + scales.begin),
                     static_cast<size_t>(scales.count * SizeOf(DType::kF16)));
    if (const auto index = FindNonFinite(DType::kF16, of_block)) {
      const Bytes row = base.bytes(param) / param.rows();
      return NotFinite(base, param, FloatText(DType::kF16, of_block, *index),
                       StrCat("as a scale of ", format.name, " block ",
                              (first_row * row + block) / format.bytes));
    }
    if (type != WeightType::kMXFP4) continue;
    if (const auto wrong = NonFiniteOfMxfp4(part.subspan(
            static_cast<size_t>(block), static_cast<size_t>(format.bytes)))) {
      const Bytes row = base.tensor(param).bytes / param.shape[0];
      return NotFinite(
          base, param, StrCat(*wrong),
          StrCat("in MXFP4 block ", (first_row * row + block) / format.bytes));
    }
  }
  return {};
}

Status LoadBytes(const PretrainedModel& base, const PretrainedParam& param,
                 Runner& runner) {
  const int64_t rows = param.rows();
  const Bytes row = base.bytes(param) / rows;
  const int64_t most = RowsAtATime(row, rows);
  std::vector<std::byte> window(static_cast<size_t>(most * row));
  for (int64_t first = 0; first < rows; first += most) {
    const auto part = std::span(window).first(
        static_cast<size_t>(std::min(most, rows - first) * row));
    STOWAGE_RETURN_IF_ERROR(base.ReadBytes(param, first, part));
    STOWAGE_RETURN_IF_ERROR(CheckBytes(base, param, first, part));
    STOWAGE_RETURN_IF_ERROR(
        runner.WritePart(param.name, DType::kU8, first * row, part));
  }
  return {};
}

// With `pissa`, loads the residual of an adapted weight, and the adapter.
Status LoadNumbers(const PretrainedModel& base, const PretrainedParam& param,
                   const LoraMatrices* start, double factor, Runner& runner) {
  const int64_t rows = param.rows();
  const int64_t row = param.shape.num_elements() / rows;
  // Vectors are read whole, since a part could split a block.
  const int64_t most = param.shape.rank() == 1
                           ? rows
                           : RowsAtATime(row * SizeOf(DType::kF32), rows);
  std::vector<float> window(static_cast<size_t>(most * row));
  for (int64_t first = 0; first < rows; first += most) {
    const auto part = std::span(window).first(
        static_cast<size_t>(std::min(most, rows - first) * row));
    STOWAGE_RETURN_IF_ERROR(base.ReadFloats(param, first, part));
    const auto bytes = std::as_bytes(part);
    if (const auto index = FindNonFinite(DType::kF32, bytes)) {
      return NotFinite(base, param, FloatText(DType::kF32, bytes, *index),
                       StrCat("at element ", first * row + *index));
    }
    for (int64_t i = 0; start != nullptr && i < std::ssize(part) / row; ++i) {
      start->AddTo(
          first + i, -factor,
          part.subspan(static_cast<size_t>(i * row), static_cast<size_t>(row)));
    }
    STOWAGE_RETURN_IF_ERROR(WriteFloats(runner, param.name, first * row, part));
  }
  if (start == nullptr) return {};
  const LoraParams adapter = LoraParamsOf(param.name);
  STOWAGE_RETURN_IF_ERROR(WriteFloats(runner, adapter.down, 0, start->down));
  return WriteFloats(runner, adapter.up, 0, start->up);
}

}  // namespace

Result<FineTuning> FineTuning::Open(const std::string& path,
                                    const FineTuningOptions& options) {
  STOWAGE_CHECK(!(options.classifier && options.embedding));
  STOWAGE_ASSIGN_OR_RETURN(
      PretrainedModel base,
      options.classifier
          ? PretrainedModel::OpenClassifier(path, *options.classifier)
      : options.embedding
          ? PretrainedModel::OpenEmbedder(path, options.embedder)
          : PretrainedModel::Open(path));
  if (options.dtype == DType::kF64 || !IsFloat(options.dtype)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[finetune] dtype is ", DTypeName(options.dtype),
                        "; expected f32, bf16 or f16")};
  }
  FineTuning tuning;
  tuning.base_ = std::make_shared<const PretrainedModel>(std::move(base));
  tuning.options_ = options;
  if (options.lora && options.lora->targets.empty()) {
    tuning.options_.lora->targets = UsualTargets(*tuning.base_);
  }
  // Report errors of the graphs now.
  STOWAGE_ASSIGN_OR_RETURN(const Graph smallest,
                           tuning.Build(ModelPurpose::kTrain, 1, 1));
  if (options.lora) {
    tuning.in_blocks_ = InBlocks(*tuning.base_, smallest, options.dtype);
    tuning.squared_norms_ = SquaredNormsOf(smallest);
  }
  if (options.pissa) STOWAGE_RETURN_IF_ERROR(tuning.ChoosePissa(smallest));
  return tuning;
}

Status FineTuning::ChoosePissa(const Graph& adapted) {
  if (!options_.lora || options_.lora->dora) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[pissa] adapters that begin as PiSSA's are plain "
                        "LoRA's; ",
                        options_.lora ? "leave DoRA out" : "there are none")};
  }
  STOWAGE_RETURN_IF_ERROR(CheckPissa(*base_, adapted, options_.lora->rank));
  std::erase_if(in_blocks_, [&](const auto& param) {
    return adapted.Find(LoraParamsOf(param.first).down).has_value();
  });
  pissa_ = std::make_shared<PissaStarts>(*options_.lora, options_.dtype);
  return {};
}

Result<Graph> FineTuning::Build(ModelPurpose purpose, int64_t batch,
                                int64_t seq,
                                std::optional<int64_t> cache) const {
  STOWAGE_ASSIGN_OR_RETURN(
      Graph graph,
      base_->Build(purpose, {.batch = batch,
                             .seq = seq,
                             .dtype = options_.dtype,
                             .weighted_targets = options_.weighted_targets,
                             .packed = options_.packed,
                             .preference = options_.preference,
                             .embedding = options_.embedding,
                             .cache = cache}));
  if (!options_.lora) return graph;
  LoraRules rules = *options_.lora;
  if (purpose != ModelPurpose::kTrain) rules.dropout = 0;
  STOWAGE_ASSIGN_OR_RETURN(graph, WithLora(graph, rules));
  return WithQuantizedParams(graph, in_blocks_);
}

ModelFn FineTuning::ModelOf(ModelPurpose purpose, int64_t seq,
                            std::optional<int64_t> cache) const {
  return [tuning = *this, purpose, seq, cache](int64_t batch) {
    return tuning.Build(purpose, batch, seq, cache);
  };
}

std::vector<ParamGroup> LoraGroups(double plus, bool dora) {
  std::vector<ParamGroup> groups = {
      {.pattern = "*.lora_A.weight"},
      {.pattern = "*.lora_B.weight", .lr_scale = plus}};
  if (dora) {
    groups.push_back({.pattern = "*.lora_magnitude_vector", .lr_scale = plus});
  }
  groups.push_back({.pattern = "*", .frozen = true});
  return groups;
}

std::vector<ParamGroup> FineTuning::groups() const {
  if (!options_.lora) return {};
  std::vector<ParamGroup> groups = LoraGroups(options_.lora_plus, has_dora());
  if (const EncoderConfig* const encoder = classifier()) {
    for (const std::string_view layer :
         {encoder->names.head_dense, encoder->names.head_out}) {
      for (const char* const kind : {".weight", ".bias"}) {
        groups.insert(groups.begin(), {.pattern = StrCat(layer, kind)});
      }
    }
  }
  return groups;
}

bool FineTuning::IsTrainedHead(std::string_view param) const {
  return classifier() != nullptr && IsHeadParam(*classifier(), param);
}

bool FineTuning::IsTrained(std::string_view param) const {
  return !options_.lora || IsLoraParam(param) || IsTrainedHead(param);
}

Status FineTuning::LoadBase(Runner& runner) const {
  std::vector<std::string> names;
  for (const PretrainedParam& param : base_->params()) {
    names.push_back(param.name);
    if (!has_dora() && !pissa_) continue;
    const LoraParams adapter = LoraParamsOf(param.name);
    for (const std::string& name :
         {adapter.down, adapter.up, adapter.magnitude, adapter.squared_norm}) {
      if (runner.graph().Find(name)) names.push_back(name);
    }
  }
  return AllOrNone(runner, names, [&]() -> Status {
    for (const PretrainedParam& param : base_->params()) {
      if (in_blocks_.contains(param.name)) {
        STOWAGE_RETURN_IF_ERROR(LoadBytes(*base_, param, runner));
        continue;
      }
      const LoraMatrices* start = nullptr;
      if (pissa_ && runner.graph().Find(LoraParamsOf(param.name).down)) {
        STOWAGE_ASSIGN_OR_RETURN(start, pissa_->Of(*base_, param));
      }
      STOWAGE_RETURN_IF_ERROR(
          LoadNumbers(*base_, param, start,
                      start ? LoraFactor(*options_.lora) : 0, runner));
    }
    if (!has_dora()) return {};
    STOWAGE_ASSIGN_OR_RETURN(const Graph adapted,
                             Build(ModelPurpose::kEvaluate, 1, 1));
    return StartDora(adapted, runner);
  });
}

Result<CheckpointBase> FineTuning::BaseOfCheckpoints() const {
  CheckpointBase base;
  if (!options_.lora) return base;
  for (const PretrainedParam& param : base_->params()) {
    if (!IsTrainedHead(param.name)) base.params.push_back(param.name);
  }
  for (const ValueInfo& norm : squared_norms_) base.params.push_back(norm.name);
  STOWAGE_ASSIGN_OR_RETURN(base.content, base_->file().Content());
  return base;
}

int64_t FineTuning::trainable_params() const {
  const Result<Graph> graph = Build(ModelPurpose::kTrain, 1, 1);
  STOWAGE_CHECK(graph.ok());  // as Open found
  int64_t count = 0;
  for (const ValueId id : graph->Leaves(Role::kParam)) {
    const ValueInfo& info = graph->value(id);
    if (IsTrained(info.name)) {
      count += info.type.shape.num_elements();
    }
  }
  return count;
}

Bytes FineTuning::frozen_bytes() const {
  if (!options_.lora) return 0;
  Bytes bytes = 0;
  for (const PretrainedParam& param : base_->params()) {
    if (IsTrainedHead(param.name)) continue;
    bytes += in_blocks_.contains(param.name)
                 ? base_->bytes(param)
                 : param.shape.num_elements() * SizeOf(options_.dtype);
  }
  for (const ValueInfo& norm : squared_norms_) bytes += norm.type.bytes();
  return bytes;
}

}  // namespace stowage
