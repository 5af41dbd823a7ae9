#include "gpu/staging.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/kernel.h"

namespace stowage::gpu {

Bytes SlotBytes(const Graph& graph, Bytes alignment) {
  std::optional<Bytes> sum = 0;
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const Bytes bytes = graph.value(id).type.bytes();
    if (sum) sum = CheckedAdd(*sum, bytes);
    if (sum) sum = CheckedAdd(*sum, alignment);
    if (sum) sum = AlignUp(*sum - alignment, alignment);
  }
  if (sum) sum = CheckedAdd(*sum, kSlotAlignment);
  if (!sum) return std::numeric_limits<Bytes>::max();
  return AlignUp(*sum - kSlotAlignment, kSlotAlignment);
}

Result<std::unique_ptr<InputStaging>> InputStaging::Create(
    const Program& program, const PinnedBlock& pinned, std::byte* device_slots,
    Device& device) {
  const Graph& graph = program.graph();
  std::unique_ptr<InputStaging> staging(new InputStaging(device));
  staging->pinned_ = pinned;
  staging->device_slots_ = device_slots;
  staging->slot_bytes_ = SlotBytes(graph, program.plan().alignment);
  const auto inputs = graph.Leaves(Role::kInput);
  for (const ValueId id : inputs) {
    std::byte* const at = program.view(id).data;
    if (staging->planned_ == nullptr || at < staging->planned_) {
      staging->planned_ = at;
    }
  }
  for (const ValueId id : inputs) {
    Input input{.value = id,
                .offset = program.view(id).data - staging->planned_,
                .bytes = graph.value(id).type.bytes()};
    staging->bytes_ =
        std::max(staging->bytes_, AlignUp(input.offset + input.bytes, 16));
    staging->inputs_.push_back(input);
  }
  // A step begins with one copy of a whole slot to where the inputs are.
  const std::byte* const reserve = program.reserve().data();
  const bool on_reserve =
      staging->planned_ != nullptr &&
      staging->planned_ < reserve + program.reserve().size() &&
      reserve < staging->planned_ + staging->bytes_;
  if (staging->bytes_ > staging->slot_bytes_ || on_reserve) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[gpu] the inputs of the plan are not in one piece: they "
               "span ",
               staging->bytes_, " bytes and take ", staging->slot_bytes_,
               "; plan with PlanMemory")};
  }
  for (Event& event : staging->copied_) {
    STOWAGE_ASSIGN_OR_RETURN(event, device.CreateEvent());
  }
  return staging;
}

InputStaging::~InputStaging() {
  for (const Event event : copied_) {
    if (event.handle != nullptr) device_.Destroy(event);
  }
}

InputStaging::Input& InputStaging::Find(ValueId input) {
  const auto found = std::ranges::find(inputs_, input, &Input::value);
  STOWAGE_CHECK(found != inputs_.end());
  return *found;
}

Status InputStaging::Write(ValueId id, std::span<const std::byte> data,
                           uint64_t slot) {
  STOWAGE_RETURN_IF_ERROR(device_.Synchronize(copied_[slot]));
  Input& input = Find(id);
  std::memcpy(
      pinned_.host + static_cast<Bytes>(slot) * slot_bytes_ + input.offset,
      data.data(), data.size());
  input.newest = input.held[slot] = ++writes_;
  return {};
}

void InputStaging::Read(ValueId id, std::span<std::byte> data) const {
  const Input& input = const_cast<InputStaging*>(this)->Find(id);
  std::memcpy(data.data(), input.Newest(*this), data.size());
}

Status InputStaging::Upload(uint64_t slot, Event after, Stream copy,
                            Stream compute) {
  if (uploaded_[slot] == writes_) return {};
  std::byte* const pinned =
      pinned_.host + static_cast<Bytes>(slot) * slot_bytes_;
  bool waited = false;
  for (Input& input : inputs_) {
    if (input.held[slot] == input.newest) continue;
    if (!waited) STOWAGE_RETURN_IF_ERROR(device_.Synchronize(copied_[slot]));
    waited = true;
    std::memcpy(pinned + input.offset, input.Newest(*this),
                static_cast<size_t>(input.bytes));
    input.held[slot] = input.newest;
  }
  STOWAGE_RETURN_IF_ERROR(device_.Await(copy, after));
  STOWAGE_RETURN_IF_ERROR(
      device_.Copy(device_slots_ + static_cast<Bytes>(slot) * slot_bytes_,
                   pinned, bytes_, copy));
  STOWAGE_RETURN_IF_ERROR(device_.Record(copied_[slot], copy));
  STOWAGE_RETURN_IF_ERROR(device_.Await(compute, copied_[slot]));
  uploaded_[slot] = writes_;
  return {};
}

Status InputStaging::Place(Stream stream) {
  for (const Input& input : inputs_) {
    STOWAGE_RETURN_IF_ERROR(device_.Copy(
        planned_ + input.offset, input.Newest(*this), input.bytes, stream));
  }
  return {};
}

}  // namespace stowage::gpu
