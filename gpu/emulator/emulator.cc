#include "gpu/emulator/emulator.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/emulator/context.h"
#include "gpu/emulator/fiber.h"
#include "gpu/emulator/warpgroup.h"
#include "math/activations.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace emulator {

constinit thread_local Context context;

namespace {

constexpr int kLanes = 32;
constexpr uint32_t kMaxThreads = 1024;
constexpr size_t kMaxShared = 227 * 1024;  // of a block, on sm_90
constexpr size_t kMaxStatic = 48 * 1024;
constexpr size_t kDynamicAlignment = 1024;
constexpr std::byte kNan{0xFF};  // so filled, every float type holds NaN
constexpr std::byte kGuard{0xA5};

// SplitMix64 (Steele, Lea & Flood 2014).
class Lots {
 public:
  explicit Lots(uint64_t seed) : state_(seed) {}
  /// In [0, n).
  size_t Draw(size_t n) {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<size_t>(((z ^ (z >> 31)) >> 32) * n >> 32);
  }
  template <typename T>
  void Shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i > 1; --i) {
      std::swap((*items)[i - 1], (*items)[Draw(i)]);
    }
  }

 private:
  uint64_t state_;
};

struct Copy {
  std::byte* to;
  const std::byte* from;  // null: zeros
  int group;
};

struct Thread {
  Fiber* fiber = nullptr;  // null before it starts
  bool returned = false;
  const Site* waits = nullptr;   // null: it does not
  std::vector<Copy> copies;      // under way, oldest first
  int group = 0;                 // that the next copy will belong to
  std::vector<size_t> unfenced;  // of dynamic memory, what it has written
};

// Threads that wait for each other: a warp or a warpgroup.
struct Meeting {
  int arrived = 0;
  CompleteFn complete = nullptr;
  const Site* site = nullptr;  // of those who have arrived
  void* arguments[kWarpgroupThreads] = {};
};

struct SharedRange {
  const char* name;
  std::byte* bytes;
  size_t size;
};

bool Same(const Site& a, const Site& b) {
  return a.line == b.line &&
         (a.word == b.word || std::strcmp(a.word, b.word) == 0) &&
         (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string Describe(const Site& site) {
  return StrCat(site.word, " (", site.file, ":", site.line, ")");
}

// Runs the threads of a block. A fiber runs one thread after another, so that threads that
// never wait cost no switch; a waiting thread keeps its fiber.
class Machine {
 public:
  void Run(const KernelCall& call, const EmulatorOptions& options);

  void AwaitBlock(const Site& site);
  void AwaitWarp(CompleteFn complete, void* arguments, const Site& site);
  void AwaitWarpgroup(CompleteFn complete, void* arguments, const Site& site);
  void OpenShared(const char* name, std::byte* bytes, size_t size);
  bool IsShared16(const void* address) const;
  void CopyAsync(void* shared, const void* global);
  void AwaitCopies(int groups_left);
  std::span<std::byte> dynamic() const {
    return {context.dynamic_shared, call_->dynamic_shared};
  }
  void NoteStore(const void* address);
  void FenceCopies();
  bool IsFenced(size_t byte) const { return unfenced_[byte / 16] == 0; }
  bool DefersCopies() const { return options_->seed != 0; }
  uint64_t syncs_passed() const { return syncs_passed_; }
  void Suspend(const Site& site);
  void Release(int thread);
  Thread& me() { return threads_[static_cast<size_t>(context.thread)]; }
  /// Reports an error of the running thread, then leaves.
  void Complain(const std::string& what);
  /// Gives up the block. Nothing on the stacks of its threads is destroyed, so
  /// they must hold no memory.
  [[noreturn]] void Leave();

 private:
  static constexpr int kNobody = -1;

  static void FiberBody();

  bool RunBlock();
  void ComplainOfBlock(const std::string& what);
  std::string WhoWaits() const;
  void AddRange(const SharedRange& range);
  std::string BrokenGuard() const;

  int TakeNext();
  int TakeOfWarp();
  static int Take(std::vector<int>* threads, size_t i);
  void Resume(Fiber& from, int thread);
  void Return();
  void ReleaseBlock();
  void Meet(Meeting& meeting, int first, int size, CompleteFn complete,
            void* arguments, const Site& site);
  void Arrive(const Copy& copy);

  // The kernel launch.
  const KernelCall* call_ = nullptr;
  const EmulatorOptions* options_ = nullptr;
  Lots lots_{0};
  std::vector<std::byte> dynamic_;

  // The running block.
  std::vector<Thread> threads_;
  std::vector<Meeting> warps_, warpgroups_;
  std::vector<uint8_t> unfenced_;  // by 16 bytes of dynamic memory: 0 or 1
  std::vector<int> unstarted_;     // the last one is next
  std::vector<int> runnable_;      // have waited, need not any more
  size_t first_runnable_ = 0;      // in the natural order
  std::vector<std::vector<int>> ready_;  // both, by warp: warp by warp
  int live_ = 0;
  int arrived_ = 0;  // in SyncThreads
  uint64_t syncs_passed_ = 0;
  const Site* block_site_ = nullptr;
  std::vector<SharedRange> shared_;
  std::string complaint_;

  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

Machine& TheMachine() {
  static thread_local Machine machine;
  return machine;
}

void Machine::ComplainOfBlock(const std::string& what) {
  complaint_ = StrCat("[emulator] kernel ", Quoted(call_->name), ", block (",
                      context.block[0], ", ", context.block[1], "): ", what);
}

void Machine::Complain(const std::string& what) {
  ComplainOfBlock(StrCat("thread ", context.thread, ": ", what));
}

void Machine::Leave() {
  Fiber& fiber = *me().fiber;
  Fiber::Switch(fiber, main_);
  STOWAGE_CHECK(false);  // nobody switches back
}

void Machine::Run(const KernelCall& call, const EmulatorOptions& options) {
  call_ = &call;
  options_ = &options;
  STOWAGE_CHECK(call.threads > 0 && call.threads % kLanes == 0 &&
                call.threads <= kMaxThreads);
  STOWAGE_CHECK(call.grid.x > 0 && call.grid.y > 0 && call.grid.y <= kMaxGridY);
  STOWAGE_CHECK(call.dynamic_shared <= kMaxShared);
  lots_ = Lots(options.seed);
  threads_.resize(call.threads);
  warps_.resize(call.threads / kLanes);
  warpgroups_.resize(call.threads / kWarpgroupThreads);
  dynamic_.resize(call.dynamic_shared + 2 * kGuardBytes + kDynamicAlignment);
  const auto address = reinterpret_cast<uintptr_t>(dynamic_.data());
  context.block_size = static_cast<int>(call.threads);
  context.dynamic_shared =
      dynamic_.data() + kGuardBytes +
      (kDynamicAlignment - (address + kGuardBytes) % kDynamicAlignment);
  context.grid_size = static_cast<int>(call.grid.x);

  const uint64_t blocks = uint64_t{call.grid.x} * call.grid.y;
  std::vector<uint64_t> order(blocks);
  for (uint64_t i = 0; i < blocks; ++i) order[i] = i;
  if (options.seed != 0) lots_.Shuffle(&order);
  for (const uint64_t block : order) {
    context.block[0] = static_cast<int>(block % call.grid.x);
    context.block[1] = static_cast<int>(block / call.grid.x);
    if (RunBlock()) continue;
    if (options.report == nullptr) {
      internal::CheckFailed(complaint_.c_str(), __FILE__, __LINE__);
    }
    *options.report = complaint_;
    break;
  }
  context.block_size = 0;
}

// Returns false, after a complaint, if the block has an error.
bool Machine::RunBlock() {
  ++context.serial;
  complaint_.clear();
  shared_.clear();
  if (call_->dynamic_shared > 0) {
    AddRange({"DynamicShared", context.dynamic_shared, call_->dynamic_shared});
  }
  for (Thread& thread : threads_) {
    thread.fiber = nullptr;
    thread.returned = false;
    thread.waits = nullptr;
    thread.copies.clear();
    thread.group = 0;
    thread.unfenced.clear();
  }
  for (Meeting& warp : warps_) warp.arrived = 0;
  for (Meeting& warpgroup : warpgroups_) warpgroup.arrived = 0;
  unfenced_.assign((call_->dynamic_shared + 15) / 16, 0);
  runnable_.clear();
  first_runnable_ = 0;
  live_ = static_cast<int>(threads_.size());
  arrived_ = 0;
  syncs_passed_ = 0;
  unstarted_.resize(threads_.size());
  for (int i = 0; i < live_; ++i) {
    unstarted_[static_cast<size_t>(live_ - 1 - i)] = i;
  }
  if (options_->seed != 0) lots_.Shuffle(&unstarted_);
  if (options_->warp_by_warp) {
    ready_.resize(warps_.size());
    for (std::vector<int>& ready : ready_) ready.clear();
    for (const int thread : unstarted_) {
      ready_[static_cast<size_t>(thread / kLanes)].push_back(thread);
    }
    unstarted_.clear();
  }

  Resume(main_, TakeNext());
  if (complaint_.empty() && live_ > 0) ComplainOfBlock(WhoWaits());
  for (const std::string& wrong : {BrokenGuard(), WhatCopiesLeave()}) {
    if (complaint_.empty() && !wrong.empty()) ComplainOfBlock(wrong);
  }
  if (complaint_.empty()) return true;
  // Threads are in the middle of the kernel; their fibers start again.
  idle_.clear();
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    fiber->Start(FiberBody);
    idle_.push_back(fiber.get());
  }
  return false;
}

std::string Machine::WhoWaits() const {
  std::map<std::string, std::vector<size_t>> waiting;
  size_t returned = 0;
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].returned) {
      ++returned;
    } else {
      waiting[Describe(*threads_[i].waits)].push_back(i);
    }
  }
  std::string text = "threads wait for others that do not come: ";
  for (const auto& [where, who] : waiting) {
    text += StrCat(who.size(), " in ", where, ", the first is thread ", who[0],
                   "; ");
  }
  return text + StrCat(returned, " have returned", WhatBarriersLack());
}

void Machine::AddRange(const SharedRange& range) {
  std::fill_n(range.bytes, range.size, kNan);
  std::fill_n(range.bytes - kGuardBytes, kGuardBytes, kGuard);
  std::fill_n(range.bytes + range.size, kGuardBytes, kGuard);
  shared_.push_back(range);
}

void Machine::OpenShared(const char* name, std::byte* bytes, size_t size) {
  AddRange({name, bytes, size});
  size_t fixed = 0;
  for (const SharedRange& range : shared_) {
    if (range.bytes != context.dynamic_shared) fixed += range.size;
  }
  if (fixed > kMaxStatic || fixed + call_->dynamic_shared > kMaxShared) {
    Complain(StrCat("too much shared memory: ", fixed, " bytes in arrays, ",
                    call_->dynamic_shared, " at launch"));
    Leave();
  }
}

bool Machine::IsShared16(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return std::any_of(
      shared_.begin(), shared_.end(), [at](const SharedRange& range) {
        const auto first = reinterpret_cast<uintptr_t>(range.bytes);
        return at >= first && at - first + 16 <= range.size;
      });
}

std::string Machine::BrokenGuard() const {
  for (const SharedRange& range : shared_) {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (*(range.bytes - 1 - i) != kGuard) {
        return StrCat("byte ", i + 1, " before shared array ",
                      Quoted(range.name), " was written");
      }
      if (range.bytes[range.size + i] != kGuard) {
        return StrCat("byte ", range.size + i, " of shared array ",
                      Quoted(range.name), " was written, which has ",
                      range.size);
      }
    }
  }
  return "";
}

// --- Which thread runs ---

int Machine::TakeNext() {
  if (options_->warp_by_warp) return TakeOfWarp();
  const size_t waiting = runnable_.size() - first_runnable_;
  if (options_->seed == 0) {
    if (unstarted_.empty() && waiting > 0) {
      const int next = runnable_[first_runnable_++];
      if (first_runnable_ == runnable_.size()) {
        runnable_.clear();
        first_runnable_ = 0;
      }
      return next;
    }
  } else if (waiting > 0) {
    const size_t lot = lots_.Draw(waiting + unstarted_.size());
    if (lot < waiting) return Take(&runnable_, lot);
  }
  if (unstarted_.empty()) return kNobody;
  return Take(&unstarted_, unstarted_.size() - 1);
}

// A thread of the warp that ran last; if none of it can run, of the next runnable warp from a
// random one on.
int Machine::TakeOfWarp() {
  const size_t warps = ready_.size();
  size_t warp = static_cast<size_t>(context.thread / kLanes) % warps;
  if (ready_[warp].empty()) warp = lots_.Draw(warps);
  for (size_t i = 0; i < warps; ++i, warp = (warp + 1) % warps) {
    std::vector<int>& ready = ready_[warp];
    if (!ready.empty()) return Take(&ready, lots_.Draw(ready.size()));
  }
  return kNobody;
}

int Machine::Take(std::vector<int>* threads, size_t i) {
  std::swap((*threads)[i], threads->back());
  const int thread = threads->back();
  threads->pop_back();
  return thread;
}

void Machine::Resume(Fiber& from, int thread) {
  if (thread == kNobody) return Fiber::Switch(from, main_);
  Fiber*& fiber = threads_[static_cast<size_t>(thread)].fiber;
  if (fiber == nullptr) {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
      fibers_.back()->Start(FiberBody);
      idle_.push_back(fibers_.back().get());
    }
    fiber = idle_.back();
    idle_.pop_back();
  }
  context.thread = thread;
  Fiber::Switch(from, *fiber);
}

void Machine::Suspend(const Site& site) {
  me().waits = &site;
  Resume(*me().fiber, TakeNext());
}

void Machine::Release(int thread) {
  threads_[static_cast<size_t>(thread)].waits = nullptr;
  (options_->warp_by_warp ? ready_[static_cast<size_t>(thread / kLanes)]
                          : runnable_)
      .push_back(thread);
}

void Machine::FiberBody() {
  Machine& machine = TheMachine();
  while (true) {
    Fiber* const fiber = machine.me().fiber;
    machine.call_->invoke(machine.call_->function, machine.call_->params);
    machine.Return();
    const int next = machine.TakeNext();
    if (next != kNobody &&
        machine.threads_[static_cast<size_t>(next)].fiber == nullptr) {
      context.thread = next;
      machine.me().fiber = fiber;
      continue;
    }
    machine.idle_.push_back(fiber);
    machine.Resume(*fiber, next);
  }
}

void Machine::Return() {
  me().returned = true;
  --live_;
  if (arrived_ > 0 && arrived_ == live_) ReleaseBlock();
}

// --- Barriers ---

void Machine::ReleaseBlock() {
  arrived_ = 0;
  ++syncs_passed_;
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (!threads_[i].returned && threads_[i].waits != nullptr) {
      Release(static_cast<int>(i));
    }
  }
}

void Machine::AwaitBlock(const Site& site) {
  if (arrived_ > 0 && !Same(*block_site_, site)) {
    Complain(StrCat("it is in ", Describe(site), " while others wait in ",
                    Describe(*block_site_)));
    Leave();
  }
  block_site_ = &site;
  if (++arrived_ == live_) return ReleaseBlock();
  Suspend(site);
}

void Machine::AwaitWarp(CompleteFn complete, void* arguments,
                        const Site& site) {
  const int first = context.thread / kLanes * kLanes;
  Meet(warps_[static_cast<size_t>(first / kLanes)], first, kLanes, complete,
       arguments, site);
}

void Machine::AwaitWarpgroup(CompleteFn complete, void* arguments,
                             const Site& site) {
  const int first = context.thread / kWarpgroupThreads * kWarpgroupThreads;
  if (first + kWarpgroupThreads > context.block_size) {
    Complain(StrCat("it is in ", Describe(site), ", and its warpgroup has ",
                    context.block_size - first, " threads"));
    Leave();
  }
  Meet(warpgroups_[static_cast<size_t>(first / kWarpgroupThreads)], first,
       kWarpgroupThreads, complete, arguments, site);
}

// The group of threads [first, first + size).
void Machine::Meet(Meeting& meeting, int first, int size, CompleteFn complete,
                   void* arguments, const Site& site) {
  if (meeting.arrived > 0 &&
      (meeting.complete != complete || !Same(*meeting.site, site))) {
    Complain(StrCat("it is in ", Describe(site), " while others of its ",
                    size == kLanes ? "warp" : "warpgroup", " wait in ",
                    Describe(*meeting.site)));
    Leave();
  }
  meeting.complete = complete;
  meeting.site = &site;
  meeting.arguments[context.thread - first] = arguments;
  if (++meeting.arrived < size) return Suspend(site);
  complete(meeting.arguments);
  meeting.arrived = 0;
  for (int i = first; i < first + size; ++i) {
    if (i != context.thread) Release(i);
  }
}

// --- Copies to shared memory ---

void Machine::Arrive(const Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, 16);
  } else {
    std::memcpy(copy.to, copy.from, 16);
  }
  NoteStore(copy.to);
}

void Machine::NoteStore(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  const auto chunk = static_cast<size_t>(at - context.dynamic_shared) / 16;
  if (at < context.dynamic_shared || chunk >= unfenced_.size()) return;
  unfenced_[chunk] = 1;
  me().unfenced.push_back(chunk);
}

void Machine::FenceCopies() {
  for (const size_t chunk : me().unfenced) unfenced_[chunk] = 0;
  me().unfenced.clear();
}

void Machine::CopyAsync(void* shared, const void* global) {
  const Copy copy = {static_cast<std::byte*>(shared),
                     static_cast<const std::byte*>(global), me().group};
  if (options_->seed == 0) return Arrive(copy);
  std::fill_n(copy.to, 16, kNan);
  me().copies.push_back(copy);
}

void Machine::AwaitCopies(int groups_left) {
  std::vector<Copy>& copies = me().copies;
  const int done = me().group - groups_left;  // groups before this one arrive
  size_t arrived = 0;
  while (arrived < copies.size() && copies[arrived].group < done) {
    Arrive(copies[arrived++]);
  }
  copies.erase(copies.begin(),
               copies.begin() + static_cast<ptrdiff_t>(arrived));
}

}  // namespace

// --- Called by the device functions ---

void ReportIndex(const char* array, int64_t index, int64_t size) {
  TheMachine().Complain(StrCat("index ", index, " is outside shared array ",
                               Quoted(array), " of ", size));
  TheMachine().Leave();
}

void ReportMisaligned(const char* word, const void* address) {
  TheMachine().Complain(StrCat(word, " of an address that is ",
                               reinterpret_cast<uintptr_t>(address) % 16,
                               " bytes past a multiple of 16"));
  TheMachine().Leave();
}

void AwaitBlock(const Site& site) { TheMachine().AwaitBlock(site); }
void AwaitWarp(CompleteFn complete, void* arguments, const Site& site) {
  TheMachine().AwaitWarp(complete, arguments, site);
}
void AwaitWarpgroup(CompleteFn complete, void* arguments, const Site& site) {
  TheMachine().AwaitWarpgroup(complete, arguments, site);
}

void Complain(const std::string& what) { TheMachine().Complain(what); }
void Leave() { TheMachine().Leave(); }

std::span<std::byte> DynamicBytes() { return TheMachine().dynamic(); }
void FenceCopies() { TheMachine().FenceCopies(); }
bool IsFenced(size_t byte_of_dynamic) {
  return TheMachine().IsFenced(byte_of_dynamic);
}
bool DefersCopies() { return TheMachine().DefersCopies(); }
uint64_t SyncsPassed() { return TheMachine().syncs_passed(); }
void Sleep(const Site& site) { TheMachine().Suspend(site); }
void Wake(int thread) { TheMachine().Release(thread); }

void NoteStore(const void* address) { TheMachine().NoteStore(address); }

void OpenShared(const char* name, std::byte* bytes, size_t size) {
  TheMachine().OpenShared(name, bytes, size);
}

void CheckShared16(const char* word, const void* address) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    ReportMisaligned(word, address);
  }
  if (!TheMachine().IsShared16(address)) {
    TheMachine().Complain(StrCat(word, " of an address outside shared memory"));
    TheMachine().Leave();
  }
  const std::span<const std::byte> dynamic = TheMachine().dynamic();
  const auto byte = static_cast<size_t>(static_cast<const std::byte*>(address) -
                                        context.dynamic_shared);
  if (byte < dynamic.size() && !HasArrived(byte, context.thread, 1)) {
    Report(word, " of byte ", byte,
           " of shared memory, which a copy writes that this thread has not "
           "waited for");
  }
}

void CopyAsync(void* shared, const void* global) {
  TheMachine().CopyAsync(shared, global);
}
void CommitCopies() { ++TheMachine().me().group; }
void AwaitCopies(int groups_left) { TheMachine().AwaitCopies(groups_left); }

}  // namespace emulator

void RunGrid(const KernelCall& call, const EmulatorOptions& options) {
  emulator::TheMachine().Run(call, options);
}

namespace {

double Load(DType dtype, const std::byte* data, int64_t i) {
  const std::byte* at = data + i * SizeOf(dtype);
  if (dtype == DType::kF32) {
    float x;
    std::memcpy(&x, at, sizeof(x));
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  if (dtype == DType::kF16) return math::HalfToFloat(bits);
  STOWAGE_CHECK(dtype == DType::kBF16);
  return math::BFloat16ToFloat(bits);
}

void Store(DType dtype, double value, std::byte* data, int64_t i) {
  std::byte* at = data + i * SizeOf(dtype);
  if (dtype == DType::kF32) {
    const auto x = static_cast<float>(value);
    std::memcpy(at, &x, sizeof(x));
    return;
  }
  const float odd = math::RoundToOddFloat(value);
  const uint16_t bits = dtype == DType::kF16 ? math::FloatToHalf(odd)
                                             : math::FloatToBFloat16(odd);
  std::memcpy(at, &bits, sizeof(bits));
}

// Matrix `index` of an operand as (rows, columns), row-major.
std::vector<double> Read(const MatrixOperand& x, DType dtype, int64_t index,
                         int64_t rows, int64_t columns) {
  const std::byte* data = x.data + index * x.batch_stride * SizeOf(dtype);
  std::vector<double> matrix(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      matrix[static_cast<size_t>(i * columns + j)] =
          Load(dtype, data, x.transposed ? j * x.stride + i : i * x.stride + j);
    }
  }
  return matrix;
}

// Applies the epilogue to the sum at (i, j) of matmul `index`.
double Finish(const MatMulCall& call, int64_t index, int64_t i, int64_t j,
              double sum) {
  const MatMulEpilogue& epilogue = call.epilogue;
  const int64_t at = index * call.c_batch_stride + i * call.c_stride + j;
  if (epilogue.bias != nullptr) sum += Load(call.dtype, epilogue.bias, j);
  if (epilogue.addend != nullptr) sum += Load(call.dtype, epilogue.addend, at);
  if (epilogue.gelu_x != nullptr) {
    sum *= math::GeluTanhDerivative(Load(call.dtype, epilogue.gelu_x, at));
  }
  return sum;
}

// The sums of each of `lines` rows, or columns, of `count` elements.
void SumLines(DType dtype, const std::vector<double>& matrix, int64_t lines,
              int64_t count, int64_t line_step, int64_t step, std::byte* sums) {
  for (int64_t line = 0; line < lines; ++line) {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      sum += matrix[static_cast<size_t>(line * line_step + k * step)];
    }
    Store(dtype, sum, sums, line);
  }
}

}  // namespace

void EmulatedQueue::Launch(const KernelCall& call) {
  ++kernels_;
  RunGrid(call, options_);
}

TensorMap EmulatedQueue::Encode(const TensorMapSpec& spec) {
  const std::optional<TensorMap> map = emulator::EncodeTensorMap(spec);
  STOWAGE_CHECK(map.has_value());
  return *map;
}

void EmulatedQueue::MatMul(const MatMulCall& call) {
  ++products_;
  // There is room for the sums of one matmul.
  STOWAGE_CHECK(call.batch == 1 || (call.epilogue.a_sums == nullptr &&
                                    call.epilogue.b_sums == nullptr));
  std::vector<double> row(static_cast<size_t>(call.n));
  for (int64_t index = 0; index < call.batch; ++index) {
    const auto a = Read(call.a, call.dtype, index, call.m, call.k);
    const auto b = Read(call.b, call.dtype, index, call.k, call.n);
    if (call.epilogue.a_sums != nullptr) {
      SumLines(call.dtype, a, call.m, call.k, call.k, 1, call.epilogue.a_sums);
    }
    if (call.epilogue.b_sums != nullptr) {
      SumLines(call.dtype, b, call.n, call.k, 1, call.n, call.epilogue.b_sums);
    }
    std::byte* c = call.c + index * call.c_batch_stride * SizeOf(call.dtype);
    for (int64_t i = 0; i < call.m; ++i) {
      const int64_t first = i * call.c_stride;
      for (int64_t j = 0; j < call.n; ++j) {
        row[static_cast<size_t>(j)] =
            call.accumulate ? Load(call.dtype, c, first + j) : 0;
      }
      for (int64_t k = 0; k < call.k; ++k) {
        const double factor = a[static_cast<size_t>(i * call.k + k)];
        const double* from = b.data() + k * call.n;
        for (size_t j = 0; j < row.size(); ++j) row[j] += factor * from[j];
      }
      for (int64_t j = 0; j < call.n; ++j) {
        const double y = Finish(call, index, i, j, row[static_cast<size_t>(j)]);
        Store(call.dtype, y, c, first + j);
      }
    }
  }
}

void EmulatedQueue::Fill(std::byte* to, uint8_t value, Bytes bytes) {
  if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
}

void EmulatedQueue::Copy(std::byte* to, const std::byte* from, Bytes bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace stowage::gpu
