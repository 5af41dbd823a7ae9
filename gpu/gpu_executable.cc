#include "gpu/gpu_executable.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/attention_autotuner.h"
#include "gpu/enqueue.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "gpu/step_graphs.h"
#include "gpu/step_kernels.h"

namespace stowage::gpu {
namespace {

constexpr Bytes kChoiceBytes = 64;
// The scratch of the trial of branches, in the record's bytes.
constexpr size_t kTrialAt = 64;
static_assert(sizeof(StepRecord) <= kTrialAt &&
              kTrialAt + kBranchTrialBytes <= kRecordBytes);

class GpuExecutable final : public Executable {
 public:
  GpuExecutable(const Program& program, DeviceState& state)
      : program_(program), state_(state), device_(*state.device) {}
  ~GpuExecutable() override;

  Status Open();

  StepCode Run(size_t first, size_t last, size_t* failed) noexcept override;
  bool Start(uint64_t step) noexcept override;
  StepCode Wait(uint64_t step, std::span<float> scalars,
                size_t* failed) noexcept override;
  void WriteInput(ValueId input, std::span<const std::byte> data) override {
    state_.Ok(staging_->Write(input, data, next_ % 2));
  }
  void ReadInput(ValueId input, std::span<std::byte> data) const override {
    staging_->Read(input, data);
  }
  std::string fault() const override { return state_.fault; }

 private:
  StepRecord* record() const {
    return reinterpret_cast<StepRecord*>(program_.reserve().data());
  }
  std::byte* ring() const { return pinned_.host + 2 * staging_->slot_bytes(); }
  const std::byte* Entry(uint64_t step) const {
    return ring() + static_cast<Bytes>(step % kStepsInFlight) *
                        RingStride(program_.scalars().size());
  }
  // The chosen body of a branch, after the ring.
  Bytes ChoiceAt() const {
    return 2 * staging_->slot_bytes() +
           static_cast<Bytes>(kStepsInFlight) *
               RingStride(program_.scalars().size());
  }
  const uint32_t* chosen() const {
    return reinterpret_cast<const uint32_t*>(pinned_.host + ChoiceAt());
  }
  DeviceQueue MakeQueue(DeviceQueue::Mode mode, StepGraphs* capture = nullptr);
  Event Done(uint64_t step) const { return done_[step % kStepsInFlight]; }
  bool HasArrived(uint64_t step) const;

  Status EnqueueStep(DeviceQueue& queue, SideStreams* beside);
  void EnqueueOne(size_t index, DeviceQueue& queue);
  bool PutsBranchesInGraph();
  Status Capture();
  Status CaptureStep(std::span<const Event> events,
                     StepGraphs::Branches branches);
  Status Enter(uint64_t step);
  Status TryStart(uint64_t step);
  StepCode RunOne(size_t launch, size_t* failed) noexcept;
  Status TryRunOne(size_t launch, StepRecord* found);

  const Program& program_;
  DeviceState& state_;
  Device& device_;
  PinnedBlock
      pinned_;  // two input slots, then the ring, then a branch's choice
  Bytes pinned_bytes_ = 0;
  std::unique_ptr<InputStaging> staging_;
  std::array<Event, kStepsInFlight> done_ = {};
  std::optional<StepGraphs> graphs_;
  AttentionAutotuner::Untried untried_;
  uint64_t next_ = 1;  // the step that the record and the slots are ready for
};

GpuExecutable::~GpuExecutable() {
  // Running work uses the memory that is released here.
  static_cast<void>(device_.Synchronize(state_.copy));
  static_cast<void>(device_.Synchronize(state_.compute));
  if (state_.current == this) state_.current = nullptr;
  graphs_.reset();
  for (const Event event : done_) {
    if (event.handle != nullptr) device_.Destroy(event);
  }
  if (pinned_.host != nullptr) device_.FreePinned(pinned_);
  state_.pinned_bytes -= pinned_bytes_;
}

Status GpuExecutable::Open() {
  const Plan& plan = program_.plan();
  if (plan.alignment % kSlotAlignment != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[gpu] the plan is aligned to ", plan.alignment,
                        " bytes; the kernels need ", kSlotAlignment,
                        "; plan with alignment ", kSlotAlignment)};
  }
  const Bytes slot = SlotBytes(program_.graph(), plan.alignment);
  STOWAGE_CHECK(static_cast<Bytes>(program_.reserve().size()) >=
                ReserveBytes(slot));
  const Bytes ring_bytes = static_cast<Bytes>(kStepsInFlight) *
                           RingStride(program_.scalars().size());
  const Bytes pinned_bytes = 2 * slot + ring_bytes + kChoiceBytes;
  STOWAGE_ASSIGN_OR_RETURN(pinned_, device_.AllocatePinned(pinned_bytes));
  pinned_bytes_ = pinned_bytes;
  state_.pinned_bytes += pinned_bytes;
  std::memset(pinned_.host, 0, static_cast<size_t>(pinned_bytes));
  STOWAGE_ASSIGN_OR_RETURN(
      staging_,
      InputStaging::Create(program_, pinned_,
                           program_.reserve().data() + kRecordBytes, device_));
  for (Event& event : done_) {
    STOWAGE_ASSIGN_OR_RETURN(event, device_.CreateEvent());
  }
  DeviceQueue prepare = MakeQueue(DeviceQueue::Mode::kPrepare);
  for (size_t i = 0; i < program_.launches().size(); ++i) {
    EnqueueOne(i, prepare);
  }
  STOWAGE_RETURN_IF_ERROR(EnqueueStep(prepare, nullptr));
  STOWAGE_RETURN_IF_ERROR(device_.Synchronize(state_.compute));
  return state_.check ? Status() : Capture();
}

DeviceQueue GpuExecutable::MakeQueue(DeviceQueue::Mode mode,
                                     StepGraphs* capture) {
  DeviceQueue queue(device_, state_.compute, &record()->fault, mode);
  queue.set_attention(
      [this](const Launch& launch, AttentionAlgorithms algorithms) {
        return state_.attention.Choose(launch, algorithms, device_,
                                       state_.compute, &untried_);
      });
  queue.set_choice(reinterpret_cast<uint32_t*>(pinned_.device + ChoiceAt()),
                   chosen(), capture);
  return queue;
}

Status GpuExecutable::EnqueueStep(DeviceQueue& queue, SideStreams* beside) {
  const size_t none = program_.launches().size();
  queue.set_launch(none);
  EnqueueBeginStep(record(), program_.reserve().data() + kRecordBytes,
                   staging_->slot_bytes(), staging_->planned(),
                   staging_->bytes(), queue);
  EnqueueLaunches(program_.launches(), queue, beside);
  queue.set_launch(none);
  if (beside != nullptr) queue.Note(graphs_->End());
  std::vector<const float*> scalars;
  for (const ValueId id : program_.scalars()) {
    scalars.push_back(program_.view(id).as<float>());
  }
  EnqueueEndStep(record(), pinned_.device + 2 * staging_->slot_bytes(),
                 static_cast<uint32_t>(kStepsInFlight), scalars, queue);
  return queue.Finish(program_);
}

// One launch, and the scan of its results in a checked run.
void GpuExecutable::EnqueueOne(size_t index, DeviceQueue& queue) {
  const Launch& launch = program_.launches()[index];
  queue.set_launch(index);
  EnqueueLaunch(launch, queue);
  if (!state_.check) return;
  for (const TensorView& result : launch.outputs) {
    const DType dtype = result.dtype();
    const bool is_float =
        dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
    if (!is_float || !result.contiguous()) continue;
    EnqueueFindNonFinite(dtype, result.data, result.size(),
                         &record()->non_finite, queue);
  }
}

// Tries it with the first program that has branches.
bool GpuExecutable::PutsBranchesInGraph() {
  if (!HasBranches(program_.launches())) return false;
  if (!state_.branches.has_value()) {
    // Beside the record.
    const auto scratch =
        program_.reserve().subspan<kTrialAt, kBranchTrialBytes>();
    state_.branches =
        device_.ranks() > 1
            ? Error{ErrorCode::kUnsupported,
                    "[gpu] NCCL's exchanges are not made for graphs with "
                    "branches"}
            : TryGraphBranches(device_, state_.compute, scratch);
  }
  return state_.branches->ok();
}

Status GpuExecutable::Capture() {
  const size_t beside = SideStreams::CountCopies(program_.launches()) +
                        SideStreams::CountExchanges(program_.launches());
  std::vector<Event> events(SideStream::kEventsOfALaunch * beside);
  Status captured;
  for (Event& event : events) {
    const Result<Event> made = device_.CreateEvent();
    if (made.ok()) event = *made;
    if (!made.ok() && captured.ok()) captured = made.error();
  }
  bool is_captured = false;
  if (captured.ok() && PutsBranchesInGraph()) {
    state_.branches = CaptureStep(events, StepGraphs::Branches::kInGraph);
    is_captured = state_.branches->ok();
  }
  if (captured.ok() && !is_captured) {
    captured = CaptureStep(events, StepGraphs::Branches::kByHost);
  }
  for (const Event event : events) {
    if (event.handle != nullptr) device_.Destroy(event);
  }
  return captured;
}

Status GpuExecutable::CaptureStep(std::span<const Event> events,
                                  StepGraphs::Branches branches) {
  graphs_.emplace(device_, state_.compute, branches);
  DeviceQueue queue = MakeQueue(DeviceQueue::Mode::kRun, &*graphs_);
  const size_t of_copies = SideStream::kEventsOfALaunch *
                           SideStreams::CountCopies(program_.launches());
  SideStreams beside = {
      .copies = {device_, state_.compute, state_.copy, events.first(of_copies)},
      .exchanges = {device_, state_.compute, state_.exchange,
                    events.subspan(of_copies)}};
  return graphs_->Capture([&] { return EnqueueStep(queue, &beside); });
}

// Makes the arena this program's, after waiting for other programs.
Status GpuExecutable::Enter(uint64_t step) {
  STOWAGE_RETURN_IF_ERROR(device_.Synchronize(state_.copy));
  const StepRecord fresh{.step = step};
  STOWAGE_RETURN_IF_ERROR(
      device_.Copy(record(), &fresh, sizeof(fresh), state_.compute));
  STOWAGE_RETURN_IF_ERROR(device_.Synchronize(state_.compute));
  state_.current = this;
  next_ = step;
  return {};
}

bool GpuExecutable::Start(uint64_t step) noexcept {
  if (state_.check) return false;
  if (state_.fault.empty()) state_.Ok(TryStart(step));
  return true;  // Wait tells what failed
}

Status GpuExecutable::TryStart(uint64_t step) {
  if (state_.current != this || next_ != step) {
    STOWAGE_RETURN_IF_ERROR(Enter(step));
  }
  // The slot was read last by the step before the last.
  STOWAGE_RETURN_IF_ERROR(staging_->Upload(
      step % 2, Done(step + kStepsInFlight - 2), state_.copy, state_.compute));
  STOWAGE_RETURN_IF_ERROR(graphs_->Launch(chosen()));
  STOWAGE_RETURN_IF_ERROR(device_.Record(Done(step), state_.compute));
  next_ = step + 1;
  return {};
}

bool GpuExecutable::HasArrived(uint64_t step) const {
  auto* const written =
      const_cast<uint64_t*>(reinterpret_cast<const uint64_t*>(Entry(step)));
  return std::atomic_ref<uint64_t>(*written).load(std::memory_order_acquire) ==
         step;
}

StepCode GpuExecutable::Wait(uint64_t step, std::span<float> scalars,
                             size_t* failed) noexcept {
  *failed = program_.launches().size();
  if (!HasArrived(step)) {
    if (!state_.fault.empty() || !state_.Ok(device_.Synchronize(Done(step)))) {
      return StepCode::kDeviceFault;
    }
    STOWAGE_CHECK(HasArrived(step));
  }
  RingEntry head;
  std::memcpy(&head, Entry(step), sizeof(head));
  std::ranges::copy(std::span(Entry(step) + sizeof(head), scalars.size_bytes()),
                    std::as_writable_bytes(scalars).data());
  if (head.fault == kNoFault) return StepCode::kOk;
  *failed = head.fault;
  return StepCode::kIndexOutOfRange;
}

StepCode GpuExecutable::Run(size_t first, size_t last,
                            size_t* failed) noexcept {
  *failed = program_.launches().size();
  if (!state_.fault.empty()) return StepCode::kDeviceFault;
  if (first == 0) {
    // The next Start initializes the slots in the arena and the record's step.
    if (!state_.Ok(Enter(0)) || !state_.Ok(staging_->Place(state_.compute))) {
      return StepCode::kDeviceFault;
    }
  }
  for (size_t i = first; i < last; ++i) {
    const StepCode code = RunOne(i, failed);
    if (code != StepCode::kOk) return code;
  }
  return StepCode::kOk;
}

StepCode GpuExecutable::RunOne(size_t launch, size_t* failed) noexcept {
  StepRecord found;
  const bool ok = state_.Ok(TryRunOne(launch, &found));
  StepCode code = StepCode::kOk;
  if (!ok) {
    code = StepCode::kDeviceFault;
  } else if (found.fault != kNoFault) {
    code = StepCode::kIndexOutOfRange;
  } else if (found.non_finite != 0) {
    code = StepCode::kNonFinite;
  }
  if (code != StepCode::kOk) *failed = launch;
  return code;
}

Status GpuExecutable::TryRunOne(size_t index, StepRecord* found) {
  DeviceQueue queue = MakeQueue(DeviceQueue::Mode::kRun);
  EnqueueOne(index, queue);
  STOWAGE_RETURN_IF_ERROR(queue.Finish(program_));
  STOWAGE_RETURN_IF_ERROR(
      device_.Copy(found, record(), sizeof(*found), state_.compute));
  return device_.Synchronize(state_.compute);
}

}  // namespace

bool DeviceState::Ok(const Status& status) {
  if (status.ok()) return true;
  if (fault.empty()) fault = status.error().message;
  return false;
}

Result<std::unique_ptr<Executable>> BindProgram(const Program& program,
                                                DeviceState& state) {
  auto executable = std::make_unique<GpuExecutable>(program, state);
  STOWAGE_RETURN_IF_ERROR(executable->Open());
  return std::unique_ptr<Executable>(std::move(executable));
}

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
