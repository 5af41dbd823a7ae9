#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "gpu/attention_autotuner.h"
#include "gpu/enqueue.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "ir/attention.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"
#include "runtime/autotune_cache.h"

namespace stowage::gpu {
namespace {

constexpr Bytes kMaxBytes = Bytes{2} << 30;
constexpr size_t kStatistics = 4;  // of a gradient's operands, log_sum_exp
// Numbers that operands repeat: a prime, so that no two heads have the same.
constexpr Bytes kMaxNumbers = 1'000'003;
// The alignment of an address and a step, as far as a kernel depends on it.
constexpr Bytes kMatters = 16;
// In a row, between two looks at the clock.
constexpr int kRunsTimed = 3;

constexpr double kTolerance = 1.0 / 128;  // of the op table, for 16 bits
constexpr double kStatisticsTolerance = 1e-5;

// An operand in the trial's memory.
struct Operand {
  TensorView view;
  Bytes at = 0;  // from the beginning

  Bytes bytes() const {
    int64_t last = 0;
    for (int axis = 0; axis < view.shape().rank(); ++axis) {
      last += (view.shape()[axis] - 1) * view.strides[axis];
    }
    return (last + 1) * SizeOf(view.dtype());
  }
};

// The axis of heads, or of columns of all heads. Negative: of key lengths, which have none.
int HeadsAxis(const TensorView& view) {
  if (view.shape().rank() == 4) return 2;  // (B, T, H, D)
  if (view.shape().rank() != 3) return -1;
  // log_sum_exp (B, H, T), or gradients side by side.
  return view.dtype() == DType::kF32 ? 1 : 2;
}

// Whether a row holds all heads: with fewer of them it is shorter.
bool HasRowsOfHeads(const TensorView& view) {
  return HeadsAxis(view) == 2 && view.strides[1] > view.strides[2];
}

// A result, or the columns of one that hold it.
struct Part {
  std::string_view name;
  size_t output;
  int64_t first, columns, row;
};

std::vector<Part> PartsOf(const Launch& launch) {
  if (launch.op == OpKind::kAttention) {
    const int64_t depth = launch.inputs[0].shape()[3];
    const int64_t queries = launch.inputs[0].shape()[1];
    return {{"o", 0, 0, depth, depth}, {"log_sum_exp", 1, 0, queries, queries}};
  }
  const bool together = launch.op == OpKind::kAttentionQkvGrad;
  std::vector<Part> parts;
  int64_t first = 0;
  for (size_t i = 0; i < kAttentionOperands; ++i) {
    constexpr std::array<std::string_view, 3> kNames = {"dq", "dk", "dv"};
    const Shape& shape = launch.inputs[i].shape();
    const int64_t width = shape[2] * shape[3];
    const int64_t row = together ? launch.outputs[0].shape().back() : width;
    parts.push_back({kNames[i], together ? 0 : i, first, width, row});
    if (together) first += width;
  }
  return parts;
}

double ElementAt(DType dtype, const std::byte* data, int64_t i) {
  const std::byte* const at = data + i * SizeOf(dtype);
  if (dtype == DType::kF32) {
    float x;
    std::memcpy(&x, at, sizeof(x));
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return dtype == DType::kBF16 ? math::BFloat16ToFloat(bits)
                               : math::HalfToFloat(bits);
}

Error Left(std::string_view why) {
  return {ErrorCode::kUnsupported, std::string(why)};
}

// Results, each in the trial's memory.
using ResultBytes = std::vector<std::vector<std::byte>>;

// Whether `found` are the numbers that are expected, the part being of `dtype`. What is
// expected is found where it is finite or -inf.
Status ComparePart(const Part& part, DType dtype,
                   const std::vector<std::byte>& expected,
                   const std::vector<std::byte>& found) {
  const auto elements = static_cast<int64_t>(found.size()) / SizeOf(dtype);
  double largest = 0, difference = 0;
  for (int64_t row = part.first; row < elements; row += part.row) {
    for (int64_t i = row; i < row + part.columns; ++i) {
      const double wanted = ElementAt(dtype, expected.data(), i);
      const double is = ElementAt(dtype, found.data(), i);
      if (std::isfinite(wanted)) largest = std::max(largest, std::abs(wanted));
      if (is == wanted) continue;
      if (!std::isfinite(is)) {
        return Left(StrCat(part.name, " was not written, or is not finite"));
      }
      difference = std::max(difference, std::abs(is - wanted));
    }
  }
  const double tolerance = dtype == DType::kF32
                               ? kStatisticsTolerance * std::max(1.0, largest)
                               : kTolerance * largest;
  if (difference <= tolerance) return {};
  return Left(
      StrCat(part.name, " differs by ", difference, ", more than ", tolerance));
}

class Trial {
 public:
  Trial(const Launch& like, Device& device, Stream stream)
      : like_(like), device_(device), stream_(stream) {}
  ~Trial() {
    if (block_ != nullptr) device_.Free(block_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Takes memory, and fills operands.
  Status Open();
  // Whether two runs give the same bits. Error: why the algorithm is rejected.
  Result<ResultBytes> Run(AttentionAlgorithm algorithm);
  Status Compare(const ResultBytes& expected, const ResultBytes& found) const;
  Result<double> Seconds(AttentionAlgorithm algorithm);

 private:
  bool CanTake(int64_t key_heads) const;
  void Place(int64_t entries, int64_t key_heads);
  Status FillOperands();
  Status MakeStatistics();
  Status Enqueue(const Launch& launch, AttentionAlgorithm algorithm,
                 DeviceQueue::Mode mode);
  Result<ResultBytes> RunOnce(AttentionAlgorithm algorithm);

  uint32_t* fault_word() const { return reinterpret_cast<uint32_t*>(block_); }

  const Launch& like_;
  Device& device_;
  const Stream stream_;
  std::vector<Operand> inputs_, outputs_;
  Bytes workspace_at_ = 0;
  Bytes bytes_ = 0;
  std::byte* block_ =
      nullptr;  // the fault word, then operands, then the workspace
  std::vector<TensorView> input_views_, output_views_;
  Launch launch_;
};

// Whether rows of so many key heads, and of the query heads that share them, are as well
// aligned as those of all heads.
bool Trial::CanTake(int64_t key_heads) const {
  const int64_t all = like_.inputs[1].shape()[2];
  const auto can = [&](const TensorView& view) {
    if (!HasRowsOfHeads(view)) return true;
    const int64_t row = view.strides[1];
    const int64_t left_out = row - row * key_heads / all;
    return row * key_heads % all == 0 &&
           left_out * SizeOf(view.dtype()) % kMatters == 0;
  };
  return std::ranges::all_of(like_.inputs, can) &&
         std::ranges::all_of(like_.outputs, can);
}

// The operands with so many entries of the batch, their first axis, and so many key heads.
void Trial::Place(int64_t entries, int64_t key_heads) {
  const int64_t all = like_.inputs[1].shape()[2];
  bytes_ = kSlotAlignment;
  const auto place = [&](std::span<const TensorView> views,
                         std::vector<Operand>* operands) {
    operands->clear();
    for (const TensorView& view : views) {
      const auto address = reinterpret_cast<uintptr_t>(view.data);
      Operand operand{.view = view,
                      .at = bytes_ + static_cast<Bytes>(address % kMatters)};
      operand.view.type.shape[0] = entries;
      if (const int axis = HeadsAxis(view); axis >= 0) {
        int64_t& heads = operand.view.type.shape[axis];
        heads = heads * key_heads / all;
      }
      if (HasRowsOfHeads(view)) {
        operand.view.strides[1] = view.strides[1] * key_heads / all;
      }
      bytes_ = AlignUp(operand.at + operand.bytes(), kSlotAlignment);
      operands->push_back(operand);
    }
  };
  place(like_.inputs, &inputs_);
  place(like_.outputs, &outputs_);
  workspace_at_ = bytes_;
  bytes_ += static_cast<Bytes>(like_.workspace.size());
}

Status Trial::Open() {
  STOWAGE_ASSIGN_OR_RETURN(const DeviceMemory memory, device_.Memory());
  const Bytes most = std::min(kMaxBytes, memory.free / 2);
  int64_t entries = like_.inputs[0].shape()[0];
  int64_t key_heads = like_.inputs[1].shape()[2];
  Place(entries, key_heads);
  while (bytes_ > most) {
    const int64_t fewer = (key_heads + 1) / 2;
    if (entries > 1) {
      entries = (entries + 1) / 2;
    } else if (fewer < key_heads && CanTake(fewer)) {
      key_heads = fewer;
    } else {
      break;
    }
    Place(entries, key_heads);
  }
  if (bytes_ > memory.free) {
    return Left(StrCat("a trial needs ", FormatBytes(bytes_),
                       " beside the arena, and ", FormatBytes(memory.free),
                       " are free"));
  }
  STOWAGE_ASSIGN_OR_RETURN(block_, device_.Allocate(bytes_));
  const auto views_of = [&](const std::vector<Operand>& operands) {
    std::vector<TensorView> views;
    for (const Operand& operand : operands) {
      views.push_back(operand.view);
      views.back().data = block_ + operand.at;
    }
    return views;
  };
  input_views_ = views_of(inputs_);
  output_views_ = views_of(outputs_);
  launch_ = {.op = like_.op,
             .attrs = like_.attrs,
             .inputs = input_views_,
             .outputs = output_views_,
             .workspace = {block_ + workspace_at_, like_.workspace.size()}};
  STOWAGE_RETURN_IF_ERROR(FillOperands());
  return launch_.op == OpKind::kAttention ? Status() : MakeStatistics();
}

Status Trial::FillOperands() {
  Bytes count = 1;
  for (const Operand& operand : inputs_) {
    count = std::min(kMaxNumbers, std::max(count, operand.bytes() / 2));
  }
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const bool is_bf16 = inputs_[0].view.dtype() == DType::kBF16;
  std::vector<uint16_t> numbers(static_cast<size_t>(count));
  for (uint16_t& number : numbers) {
    const float x = normal(random);
    number = is_bf16 ? math::FloatToBFloat16(x) : math::FloatToHalf(x);
  }
  // As long as the keys, as short as one key.
  const int64_t entries = inputs_[0].view.shape()[0];
  const int64_t keys = inputs_[1].view.shape()[1];
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < entries; ++i) {
    lengths.push_back(static_cast<int32_t>(keys - i * 7919 % keys));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::byte* at = input_views_[i].data;
    const DType dtype = inputs_[i].view.dtype();
    if (dtype == DType::kI32) {
      STOWAGE_RETURN_IF_ERROR(
          device_.Copy(at, lengths.data(), entries * SizeOf(dtype), stream_));
    }
    if (SizeOf(dtype) != 2) continue;
    Bytes from = static_cast<Bytes>(i) * 77'777 % count;
    for (Bytes left = inputs_[i].bytes() / 2; left > 0; from = 0) {
      const Bytes now = std::min(left, count - from);
      STOWAGE_RETURN_IF_ERROR(
          device_.Copy(at, numbers.data() + from, now * 2, stream_));
      at += now * 2;
      left -= now;
    }
  }
  const uint32_t no_fault = kNoFault;
  STOWAGE_RETURN_IF_ERROR(
      device_.Copy(fault_word(), &no_fault, sizeof(no_fault), stream_));
  return device_.Synchronize(stream_);
}

// A gradient needs the log_sum_exp of its queries and keys. o may be any numbers, since only
// o . d_o is computed from it; attention's o is written where dq will be.
Status Trial::MakeStatistics() {
  std::vector<TensorView> inputs(
      input_views_.begin(),
      input_views_.begin() + static_cast<ptrdiff_t>(kAttentionOperands));
  inputs.insert(
      inputs.end(),
      input_views_.begin() + static_cast<ptrdiff_t>(kAttentionGradOperands),
      input_views_.end());
  const TensorType& q = inputs[0].type;
  const TensorView outputs[] = {
      {output_views_[0].data, q, ContiguousStrides(q.shape)},
      input_views_[kStatistics]};
  const Launch attention = {.op = OpKind::kAttention,
                            .attrs = like_.attrs,
                            .inputs = inputs,
                            .outputs = outputs,
                            .workspace = {}};
  for (const auto mode :
       {DeviceQueue::Mode::kPrepare, DeviceQueue::Mode::kRun}) {
    STOWAGE_RETURN_IF_ERROR(
        Enqueue(attention, AttentionAlgorithm::kWarps, mode));
  }
  return device_.Synchronize(stream_);
}

Status Trial::Enqueue(const Launch& launch, AttentionAlgorithm algorithm,
                      DeviceQueue::Mode mode) {
  DeviceQueue queue(device_, stream_, fault_word(), mode);
  queue.set_attention([algorithm](const Launch&, AttentionAlgorithms)
                          -> Result<AttentionAlgorithm> { return algorithm; });
  GetKernel(launch.op).enqueue(launch, queue);
  return queue.status();
}

Result<ResultBytes> Trial::RunOnce(AttentionAlgorithm algorithm) {
  for (const Operand& output : outputs_) {
    STOWAGE_RETURN_IF_ERROR(
        device_.Fill(block_ + output.at, 0xFF, output.bytes(), stream_));
  }
  STOWAGE_RETURN_IF_ERROR(Enqueue(launch_, algorithm, DeviceQueue::Mode::kRun));
  ResultBytes results;
  for (const Operand& output : outputs_) {
    std::vector<std::byte>& bytes =
        results.emplace_back(static_cast<size_t>(output.bytes()));
    STOWAGE_RETURN_IF_ERROR(device_.Copy(bytes.data(), block_ + output.at,
                                         output.bytes(), stream_));
  }
  uint32_t fault = kNoFault;
  STOWAGE_RETURN_IF_ERROR(
      device_.Copy(&fault, fault_word(), sizeof(fault), stream_));
  STOWAGE_RETURN_IF_ERROR(device_.Synchronize(stream_));
  if (fault == kNoFault) return results;
  return Left("a key length is reported that is in range");
}

Result<ResultBytes> Trial::Run(AttentionAlgorithm algorithm) {
  STOWAGE_RETURN_IF_ERROR(
      Enqueue(launch_, algorithm, DeviceQueue::Mode::kPrepare));
  STOWAGE_ASSIGN_OR_RETURN(ResultBytes results, RunOnce(algorithm));
  STOWAGE_ASSIGN_OR_RETURN(const ResultBytes again, RunOnce(algorithm));
  if (results != again) return Left("a second run gives other bits");
  return results;
}

Status Trial::Compare(const ResultBytes& expected,
                      const ResultBytes& found) const {
  for (const Part& part : PartsOf(launch_)) {
    STOWAGE_RETURN_IF_ERROR(
        ComparePart(part, launch_.outputs[part.output].dtype(),
                    expected[part.output], found[part.output]));
  }
  return {};
}

Result<double> Trial::Seconds(AttentionAlgorithm algorithm) {
  STOWAGE_ASSIGN_OR_RETURN(
      const double seconds, device_.Time(stream_, [&]() -> Status {
        for (int run = 0; run < kRunsTimed; ++run) {
          STOWAGE_RETURN_IF_ERROR(
              Enqueue(launch_, algorithm, DeviceQueue::Mode::kRun));
        }
        return {};
      }));
  return seconds / kRunsTimed;
}

// "attention_grad bf16(16, 1024, 12, 64) by f16(16, 1024, 4, 64)".
std::string NameOf(const Launch& launch) {
  const TensorType& q = launch.inputs[0].type;
  const TensorType& k = launch.inputs[1].type;
  return StrCat(OpName(launch.op), " ", q.ToString(),
                q == k ? "" : StrCat(" by ", k.ToString()));
}

}  // namespace

Result<AttentionTrial> TryAttention(const Launch& launch,
                                    AttentionAlgorithms algorithms,
                                    Device& device, Stream stream) {
  AttentionTrial tried{.algorithm = {}, .found = NameOf(launch)};
  const char* divider = ": ";
  const auto tell = [&](AttentionAlgorithm algorithm, std::string_view what) {
    tried.found +=
        StrCat(divider, "by ", AttentionAlgorithmName(algorithm), " ", what);
    divider = ", ";
  };
  // Whether the device still works after an algorithm has run.
  const auto outlive = [&](AttentionAlgorithm algorithm) -> Status {
    const Status alive = device.Synchronize(stream);
    if (alive.ok()) return {};
    return Error{alive.error().code,
                 StrCat("[gpu] a trial of ", NameOf(launch), " by ",
                        AttentionAlgorithmName(algorithm),
                        " broke the device: ", alive.error().message)};
  };
  Trial trial(launch, device, stream);
  if (const Status opened = trial.Open(); !opened.ok()) {
    STOWAGE_RETURN_IF_ERROR(outlive(algorithms.first()));
    tell(algorithms.first(), StrCat("untried: ", opened.error().message));
    return tried;
  }
  std::vector<AttentionAlgorithm> sound;
  ResultBytes expected;
  for (int i = 0; i < kNumAttentionAlgorithms; ++i) {
    const auto algorithm = static_cast<AttentionAlgorithm>(i);
    if (!algorithms.Has(algorithm)) continue;
    Result<ResultBytes> found = trial.Run(algorithm);
    Status agrees = found.ok() ? Status() : found.error();
    if (agrees.ok()) {
      if (algorithm == algorithms.first()) expected = *found;
      agrees = trial.Compare(expected, *found);
    }
    if (agrees.ok()) {
      sound.push_back(algorithm);
      continue;
    }
    STOWAGE_RETURN_IF_ERROR(outlive(algorithm));
    tell(algorithm, StrCat("left out: ", agrees.error().message));
    if (algorithm == algorithms.first()) {  // there is nothing to compare with
      tried.algorithm = algorithm;
      return tried;
    }
  }
  std::vector<double> best(sound.size(),
                           std::numeric_limits<double>::infinity());
  // The first failure: after it a broken device fails the others, too.
  std::optional<AttentionAlgorithm> failed;
  const Result<size_t> fastest =
      ChooseFastest(sound.size(), [&](size_t i) -> Result<double> {
        const Result<double> seconds = trial.Seconds(sound[i]);
        if (seconds.ok()) {
          best[i] = std::min(best[i], *seconds);
        } else if (!failed) {
          failed = sound[i];
        }
        return seconds;
      });
  if (failed) STOWAGE_RETURN_IF_ERROR(outlive(*failed));
  if (!fastest.ok()) {
    tell(algorithms.first(), StrCat("untimed: ", fastest.error().message));
    return tried;
  }
  tried.algorithm = sound[*fastest];
  for (size_t i = 0; i < sound.size(); ++i) {
    tell(sound[i], std::isinf(best[i])
                       ? std::string("untimed")
                       : StrCat(Fixed(1e3 * best[i], 3), " ms"));
  }
  return tried;
}

}  // namespace stowage::gpu
