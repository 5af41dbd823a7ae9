#include "gpu/enqueue.h"

#include <algorithm>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/step_kernels.h"
#include "ir/attrs.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "runtime/control_flow.h"

namespace stowage::gpu {

void DeviceQueue::Note(const Status& status) {
  if (status.ok() || !status_.ok()) return;
  status_ = status;
  failed_ = launch_;
}

// Nothing is enqueued after an error, which may have ended a capture.

void DeviceQueue::Launch(const KernelCall& call) {
  if (!status_.ok()) return;
  Note(mode_ == Mode::kRun ? device_.Launch(call, stream_)
                           : device_.Prepare(call));
}

TensorMap DeviceQueue::Encode(const TensorMapSpec& spec) {
  if (!status_.ok()) return {};
  const Result<TensorMap> map = device_.Encode(spec);
  if (map.ok()) return *map;
  Note(map.error());
  return {};
}

void DeviceQueue::MatMul(const MatMulCall& call) {
  if (!status_.ok()) return;
  Note(mode_ == Mode::kRun ? device_.MatMul(call, stream_)
                           : device_.Prepare(call, stream_));
}

bool DeviceQueue::Takes(const MatMulCall& call) {
  if (!status_.ok()) return true;
  if (mode_ == Mode::kRun) return device_.IsPrepared(call);
  const Status prepared = device_.Prepare(call, stream_);
  if (prepared.ok()) return true;
  if (prepared.error().code == ErrorCode::kUnsupported) return false;
  Note(prepared);
  return true;
}

AttentionAlgorithm DeviceQueue::ChooseAttention(
    const stowage::Launch& launch, AttentionAlgorithms algorithms) {
  if (!status_.ok() || !attention_) return algorithms.first();
  const Result<AttentionAlgorithm> algorithm = attention_(launch, algorithms);
  if (algorithm.ok()) return *algorithm;
  Note(algorithm.error());
  return algorithms.first();
}

void DeviceQueue::Fill(std::byte* to, uint8_t value, Bytes bytes) {
  if (!status_.ok() || mode_ != Mode::kRun) return;
  Note(device_.Fill(to, value, bytes, stream_));
}

void DeviceQueue::Copy(std::byte* to, const std::byte* from, Bytes bytes) {
  if (!status_.ok() || mode_ != Mode::kRun) return;
  Note(device_.Copy(to, from, bytes, stream_));
}

// Nothing is to be prepared: ranks were joined when the device was opened.
void DeviceQueue::Exchange(std::span<const PeerMessages> messages) {
  if (!status_.ok() || mode_ != Mode::kRun) return;
  Note(device_.Exchange(messages, stream_));
}

void DeviceQueue::BranchInGraph(const std::function<void(GraphChoice)>& choose,
                                size_t bodies,
                                const std::function<void(size_t)>& give) {
  if (!status_.ok()) return;
  const Result<GraphChoice> choice = capture_->NewChoice();
  if (!choice.ok()) return Note(choice.error());
  choose(*choice);
  if (!status_.ok()) return;
  Note(capture_->Branch(*choice, bodies, give));
}

void DeviceQueue::UnlessFault(const std::function<void()>& give) {
  if (!BranchesInGraph()) return give();
  BranchInGraph(
      [this](GraphChoice choice) { EnqueueSoundChoice(choice, *this); },
      /*bodies=*/1, [&give](size_t) { give(); });
}

void DeviceQueue::Branch(const TensorView& index, size_t bodies,
                         const std::function<void(size_t)>& give) {
  if (BranchesInGraph()) {
    goes_on_ = true;
    return BranchInGraph(
        [&](GraphChoice choice) {
          EnqueueGraphChoice(index.dtype(), index.data, bodies, choice, *this);
        },
        bodies, give);
  }
  EnqueueChoice(index.dtype(), index.data, bodies, chosen_on_device_, *this);
  if (mode_ == Mode::kPrepare) {
    for (size_t body = 0; body < bodies; ++body) give(body);
    return;
  }
  if (!status_.ok()) return;
  if (capture_ != nullptr) {
    Note(capture_->Branch({}, bodies, give));
    return;
  }
  Note(device_.Synchronize(stream_));
  if (status_.ok() && *chosen_ < bodies) give(*chosen_);
}

Status DeviceQueue::Finish(const Program& program) const {
  if (status_.ok() || failed_ >= program.launches().size()) return status_;
  return Error{
      status_.error().code,
      StrCat(status_.error().message, " (at ",
             program.graph().Describe(program.launches()[failed_].node), ")")};
}

namespace {

// Fills where a loop's first iteration finds a sum.
void EnqueueFirstSum(TensorView first, DeviceQueue& queue) {
  const Attrs attrs{{"value", kNoSum}};
  Launch fill;
  fill.op = OpKind::kFill;
  fill.attrs = &attrs;
  fill.outputs = {&first, 1};
  GetKernel(OpKind::kFill).enqueue(fill, queue);
}

bool IsHostCopy(const Launch& launch) {
  return launch.op == OpKind::kReload || launch.op == OpKind::kOffload ||
         launch.op == OpKind::kOffloadUpdate;
}

bool IsOfExchange(const Launch& launch) { return IsExchange(launch.op); }

// The number of such launches among `launches` and in their bodies, each counted once.
size_t CountIn(std::span<const Launch> launches,
               bool (*is_such)(const Launch&)) {
  size_t count = 0;
  for (const Launch& launch : launches) {
    count += is_such(launch) ? 1 : 0;
    if (launch.control == nullptr) continue;
    for (size_t b = 0; b < launch.control->num_bodies(); ++b) {
      count += CountIn(launch.control->launches(b), is_such);
    }
  }
  return count;
}

// The launches of a step are numbered, and guarded after branches; those of a body are not.
enum class Launches { kOfStep, kOfBody };
void EnqueueInOrder(std::span<const Launch> launches, DeviceQueue& queue,
                    SideStreams* beside, Launches of);

// The copies of a body end with it, since the next launch may overwrite their operands.
void EnqueueBody(std::span<const Launch> launches, DeviceQueue& queue,
                 SideStreams* beside) {
  EnqueueInOrder(launches, queue, beside, Launches::kOfBody);
  if (beside != nullptr && queue.status().ok()) {
    queue.Note(beside->WaitForAll());
  }
}

void EnqueueLoop(const Launch& launch, DeviceQueue& queue,
                 SideStreams* beside) {
  ControlFlow& loop = *launch.control;
  for (size_t s = 0; s < loop.num_sums(); ++s) {
    EnqueueFirstSum(loop.FirstSum(launch, s), queue);
  }
  for (int64_t i = 0; i < loop.iterations(); ++i) {
    loop.Place(launch, 0, i);
    EnqueueBody(loop.launches(0), queue, beside);
  }
}

void EnqueueCond(const Launch& launch, DeviceQueue& queue,
                 SideStreams* beside) {
  ControlFlow& cond = *launch.control;
  queue.Branch(launch.inputs[0], cond.num_bodies(), [&](size_t body) {
    cond.Place(launch, body, 0);
    EnqueueBody(cond.launches(body), queue, beside);
  });
}

// Waits for side streams only if the node contains copies; others may run concurrently.
void EnqueueOne(const Launch& launch, DeviceQueue& queue, SideStreams* beside) {
  if (launch.control == nullptr) {
    GetKernel(launch.op).enqueue(launch, queue);
    return;
  }
  const bool copies = CountIn({&launch, 1}, IsHostCopy) > 0;
  SideStreams* const inside = copies ? beside : nullptr;
  if (launch.control->is_loop()) {
    EnqueueLoop(launch, queue, inside);
  } else {
    EnqueueCond(launch, queue, inside);
  }
}

bool IsOrHasBranch(const Launch& launch) {
  return launch.control != nullptr &&
         (!launch.control->is_loop() ||
          HasBranches(launch.control->launches(0)));
}

// Whether `launch` writes values that outlive a step whatever the fault word is. Kernels with
// enqueue_many are optimizers', which check it. Exchanges involve every rank, and transfer the
// results of optimizers.
bool WritesInAnyCase(const Launch& launch) {
  const OpDef& def = GetOpDef(launch.op);
  return def.updates > 0 && !def.collective &&
         GetKernel(launch.op).enqueue_many == nullptr;
}

void EnqueueBeside(const Launch& launch, SideStream& side, DeviceQueue& queue) {
  const Stream own = queue.stream();
  queue.Note(side.Begin());
  if (!queue.status().ok()) return;
  queue.set_stream(side.stream());
  EnqueueLaunch(launch, queue);
  queue.set_stream(own);
  queue.Note(side.End(launch));
}

void EnqueueInOrder(std::span<const Launch> launches, DeviceQueue& queue,
                    SideStreams* beside, Launches of) {
  const bool is_step = of == Launches::kOfStep;
  for (size_t i = 0; i < launches.size();) {
    if (!queue.status().ok()) return;
    if (is_step) queue.set_launch(i);
    SideStream* const side =
        beside == nullptr ? nullptr : beside->Of(launches[i]);
    const GpuKernel& kernel = GetKernel(launches[i].op);
    const bool is_guarded = is_step && queue.goes_on_behind_branches() &&
                            WritesInAnyCase(launches[i]);
    size_t count = 1;
    while (i + count < launches.size() &&
           (is_guarded ? WritesInAnyCase(launches[i + count])
                       : kernel.enqueue_many != nullptr &&
                             launches[i + count].op == launches[i].op)) {
      ++count;
    }
    const auto now = launches.subspan(i, count);
    for (const Launch& launch : now) {
      if (beside != nullptr) queue.Note(beside->WaitBefore(launch));
    }
    // A graph or a part of one ends there, and concurrent launches end with it.
    if (beside != nullptr && (is_guarded || IsOrHasBranch(now[0]))) {
      queue.Note(beside->WaitForAll());
    }
    if (is_guarded) {
      queue.UnlessFault([&] {
        for (size_t k = 0; k < count; ++k) {
          queue.set_launch(i + k);
          EnqueueLaunch(now[k], queue);
        }
      });
    } else if (side != nullptr) {
      EnqueueBeside(now[0], *side, queue);
    } else if (kernel.enqueue_many != nullptr) {
      kernel.enqueue_many(now, queue);
    } else {
      EnqueueOne(now[0], queue, beside);
    }
    i += count;
  }
}

}  // namespace

bool HasBranches(std::span<const Launch> launches) {
  return std::ranges::any_of(launches, IsOrHasBranch);
}

size_t SideStreams::CountCopies(std::span<const Launch> launches) {
  return CountIn(launches, IsHostCopy);
}

size_t SideStreams::CountExchanges(std::span<const Launch> launches) {
  return CountIn(launches, IsOfExchange);
}

SideStream* SideStreams::Of(const Launch& launch) {
  if (IsHostCopy(launch)) return &copies;
  return IsExchange(launch.op) ? &exchanges : nullptr;
}

Status SideStreams::WaitBefore(const Launch& launch) {
  // Launches of one stream are ordered already.
  const SideStream* const own = Of(launch);
  for (SideStream* const side : {&copies, &exchanges}) {
    if (side != own) STOWAGE_RETURN_IF_ERROR(side->WaitBefore(launch));
  }
  return {};
}

Status SideStreams::WaitForAll() {
  STOWAGE_RETURN_IF_ERROR(copies.WaitForAll());
  return exchanges.WaitForAll();
}

void EnqueueLaunch(const Launch& launch, DeviceQueue& queue) {
  EnqueueOne(launch, queue, nullptr);
}

void EnqueueLaunches(std::span<const Launch> launches, DeviceQueue& queue,
                     SideStreams* beside) {
  EnqueueInOrder(launches, queue, beside, Launches::kOfStep);
  if (beside != nullptr && queue.status().ok()) {
    queue.Note(beside->WaitForAll());
  }
}

}  // namespace stowage::gpu
