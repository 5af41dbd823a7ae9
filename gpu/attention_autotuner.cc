#include "gpu/attention_autotuner.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/kernels/attention_sources.h"
#include "ir/attention.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {
namespace {

constexpr ChoicesKind kAttentionKind = {
    .room = "gpu",
    .name = "attention",
    .key_numbers = std::tuple_size_v<AttentionKey>,
    .choice_words = 1,
    .says = "by which algorithms attention is computed"};

// The alignment of an address, as far as a kernel may depend on it.
int64_t AlignmentOf(const std::byte* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return int64_t{1} << std::min(std::countr_zero(bits), 4);
}

// The candidate algorithms, the op, the type, sizes, the band, whether there are key lengths,
// strides and alignments of operands, results included.
AttentionKey AttentionKeyOf(const Launch& launch,
                            AttentionAlgorithms algorithms) {
  AttentionKey key = {};
  size_t next = 0;
  const auto add = [&](int64_t number) { key.at(next++) = number; };
  const bool is_forward = launch.op == OpKind::kAttention;
  const Shape& q = launch.inputs[0].shape();
  const Shape& k = launch.inputs[1].shape();
  const AttentionBand band = BandOf(q, k, *launch.attrs);
  const size_t always =
      is_forward ? kAttentionOperands : kAttentionGradOperands;
  add(algorithms.bits());
  add(static_cast<int64_t>(launch.op));
  add(static_cast<int64_t>(launch.inputs[0].dtype()));
  for (const int64_t size : {q[0], q[1], q[2], q[3], k[1], k[2]}) add(size);
  add(band.low);
  add(band.high);
  add(launch.inputs.size() > always ? 1 : 0);
  for (size_t i = 0; i < kAttentionGradOperands; ++i) {
    if (i == 4) continue;  // log_sum_exp, which is whole
    for (int axis = 0; axis < 3; ++axis) {
      const bool matters = i < always && launch.inputs[i].shape()[axis] > 1;
      add(matters ? launch.inputs[i].strides[axis] : 0);
    }
  }
  for (size_t i = 0; i < kAttentionGradOperands; ++i) {
    add(i < always ? AlignmentOf(launch.inputs[i].data) : 0);
  }
  for (size_t i = 0; i < 3; ++i) {
    const bool is_there = i < launch.outputs.size();
    add(is_there ? AlignmentOf(launch.outputs[i].data) : 0);
  }
  STOWAGE_CHECK(next == key.size());
  return key;
}

}  // namespace

Result<AttentionAutotuner> AttentionAutotuner::Open(
    AttentionAlgorithms asked, const std::string& folder,
    const DeviceTraits& traits) {
  AttentionAutotuner autotuner;
  autotuner.allowed_ = AttentionAlgorithmsOf(traits, asked);
  // The reference of comparisons, even if the device supports only one of those asked for.
  if (asked.size() > 1) autotuner.allowed_.Add(AttentionAlgorithm::kWarps);
  if (autotuner.allowed_.size() < 2) return autotuner;
  if (folder.empty()) {
    if (asked.empty()) return autotuner;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[gpu] attention may be computed by ", autotuner.allowed_.size(),
               " algorithms, and there is no folder to keep the choice in; "
               "give one "
               "(GpuOptions::algorithm_folder), or one algorithm")};
  }
  STOWAGE_ASSIGN_OR_RETURN(
      autotuner.kept_,
      AutotuneCache::Open(folder, kAttentionKind,
                          {traits.name, traits.runtime, kAttentionSources}));
  return autotuner;
}

Result<AttentionAlgorithm> AttentionAutotuner::Choose(
    const Launch& launch, AttentionAlgorithms algorithms, Device& device,
    Stream stream, Untried* untried) {
  const AttentionAlgorithms allowed = allowed_ & algorithms;
  if (allowed.empty()) return algorithms.first();
  if (allowed.size() == 1 || !kept_) return allowed.first();
  const AttentionKey key = AttentionKeyOf(launch, allowed);
  if (untried->contains(key)) return allowed.first();
  if (const auto known = chosen_.find(key); known != chosen_.end()) {
    return known->second;
  }
  STOWAGE_ASSIGN_OR_RETURN(
      const std::optional<AttentionAlgorithm> algorithm,
      Try(launch, allowed, {key.begin(), key.end()}, device, stream));
  if (!algorithm) {
    untried->insert(key);
    return allowed.first();
  }
  chosen_.emplace(key, *algorithm);
  return *algorithm;
}

Result<std::optional<AttentionAlgorithm>> AttentionAutotuner::Try(
    const Launch& launch, AttentionAlgorithms algorithms,
    const AutotuneCache::Key& key, Device& device, Stream stream) {
  AutotuneCache::Choice kept;
  if (const AutotuneCache::Choice* const found = kept_->Find(key)) {
    kept = *found;
  } else {
    const Result<AttentionTrial> tried =
        TryAttention(launch, algorithms, device, stream);
    if (tried.ok()) found_.push_back(tried->found);
    if (tried.ok() && !tried->algorithm)
      return std::optional<AttentionAlgorithm>();
    // Whatever it found, so that the next process computes the same, and does not break
    // its device again.
    const AttentionAlgorithm algorithm =
        tried.ok() ? *tried->algorithm : algorithms.first();
    auto written = kept_->Keep(key, {static_cast<uint64_t>(algorithm)});
    if (!tried.ok()) {
      return Error{
          tried.error().code,
          StrCat(tried.error().message, "; ",
                 written.ok()
                     ? StrCat("start again: ", Quoted(kept_->path()),
                              " has it computed by ",
                              AttentionAlgorithmName(algorithm), " now")
                     : written.error().message)};
    }
    STOWAGE_ASSIGN_OR_RETURN(kept, std::move(written));
  }
  const auto algorithm = static_cast<AttentionAlgorithm>(kept[0]);
  if (kept[0] < kNumAttentionAlgorithms && algorithms.Has(algorithm)) {
    return std::optional(algorithm);
  }
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[gpu] ", Quoted(kept_->path()), " is damaged: it has attention ",
             "computed by algorithm ", kept[0],
             ", which was not to be chosen from; ",
             "put it back from a copy, or remove it to have algorithms tried "
             "again, which may change the last bits of results")};
}

namespace {

bool Anywhere(const DeviceTraits&) { return true; }
bool Nowhere(const DeviceTraits&) { return false; }
bool OnHopper(const DeviceTraits& device) {
  return device.major == 9 && device.minor == 0 && device.tensor_maps;
}

struct KnownAlgorithm {
  std::string_view name;
  /// Whether such a device has it.
  bool (*is_there)(const DeviceTraits&);
  /// Whether one of its kind has run it, and computed rightly. Only then it is tried
  /// unasked: a kernel that breaks a device, or never ends, takes the process with it.
  bool (*was_right)(const DeviceTraits&);
};

// In the order of AttentionAlgorithm.
constexpr KnownAlgorithm kKnownAlgorithms[] = {
    // Its matmuls ran on an H100 and an H200 (docs/archive/2026-11-26-h200.md); the same PTX
    // is compiled for other devices.
    {"warps", Anywhere, Anywhere},
    // No device has run its matmuls (docs/measurements/PENDING.md).
    {"warpgroups", OnHopper, Nowhere},
    // Nor these.
    {"five products", Anywhere, Nowhere},
};
static_assert(std::size(kKnownAlgorithms) == kNumAttentionAlgorithms);

}  // namespace

std::string_view AttentionAlgorithmName(AttentionAlgorithm algorithm) {
  return kKnownAlgorithms[static_cast<size_t>(algorithm)].name;
}

AttentionAlgorithms AttentionAlgorithmsOf(const DeviceTraits& device,
                                          AttentionAlgorithms asked) {
  AttentionAlgorithms algorithms;
  for (int i = 0; i < kNumAttentionAlgorithms; ++i) {
    const auto algorithm = static_cast<AttentionAlgorithm>(i);
    const KnownAlgorithm& known = kKnownAlgorithms[i];
    const bool is_wanted =
        asked.empty() ? known.was_right(device) : asked.Has(algorithm);
    if (is_wanted && known.is_there(device)) algorithms.Add(algorithm);
  }
  return algorithms;
}

}  // namespace stowage::gpu
