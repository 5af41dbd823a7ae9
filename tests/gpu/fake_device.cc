#include "tests/gpu/fake_device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/device_checks.h"
#include "gpu/emulator/emulator.h"
#include "gpu/emulator/warpgroup.h"
#include "gpu/kernel.h"
#include "tests/gpu/grid_runner.h"

namespace stowage::testing {

using gpu::DeviceGraph;
using gpu::DeviceMemory;
using gpu::Event;
using gpu::GraphChoice;
using gpu::KernelCall;
using gpu::MatMulCall;
using gpu::PeerMessages;
using gpu::PinnedBlock;
using gpu::Stream;
using gpu::TensorMap;
using gpu::TensorMapSpec;

namespace {

constexpr std::align_val_t kBlockAlignment{256};
constexpr uint32_t kUnset = 0xDEAD'BEEF;          // a choice
constexpr Bytes kWorkspaceCap = Bytes{32} << 20;  // of a matrix product

std::byte* NewBlock(Bytes bytes) {
  auto* const block = static_cast<std::byte*>(
      ::operator new(static_cast<size_t>(bytes), kBlockAlignment));
  std::memset(block, 0xA5, static_cast<size_t>(bytes));  // nothing sensible
  return block;
}
void DeleteBlock(std::byte* block) {
  ::operator delete(block, kBlockAlignment);
}

// What an algorithm for a product is chosen by.
std::vector<int64_t> ShapeOf(const MatMulCall& call) {
  return {static_cast<int64_t>(call.dtype),
          call.m,
          call.n,
          call.k,
          call.batch,
          call.a.stride,
          call.a.batch_stride,
          call.a.transposed,
          call.b.stride,
          call.b.batch_stride,
          call.b.transposed,
          call.c_stride,
          call.c_batch_stride,
          call.accumulate,
          call.epilogue.bias != nullptr,
          call.epilogue.addend != nullptr,
          call.epilogue.gelu_x != nullptr,
          call.epilogue.a_sums != nullptr,
          call.epilogue.b_sums != nullptr,
          call.workspace_bytes};
}

Error Failure(const std::string& function) {
  return {ErrorCode::kDevice, StrCat("[gpu] ", function, " was told to fail")};
}

}  // namespace

FakeDevice::FakeDevice(const FakeOptions& options) : options_(options) {
  traits_ = {.name = "Fake GPU",
             .major = options.major,
             .minor = options.minor,
             .runtime = "none",
             .software = "an emulator",
             .matmul_library = "plain loops",
             .tensor_maps = options.tensor_maps};
}

FakeDevice::~FakeDevice() { STOWAGE_CHECK(live_ == 0); }

int64_t FakeDevice::calls(const std::string& function) const {
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

Status FakeDevice::Call(const std::string& function) {
  ++calls_[function];
  if (broken_) {
    return Error{ErrorCode::kDevice, "[gpu] an illegal memory access"};
  }
  const auto failing = failing_.find(function);
  if (failing == failing_.end() || --failing->second > 0) return {};
  failing_.erase(failing);
  return Failure(function);
}

// Of functions that a capture forbids.
Status FakeDevice::CallInCapture(const std::string& function) {
  STOWAGE_CHECK(!capturing_);
  return Call(function);
}

Result<DeviceMemory> FakeDevice::Memory() {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("Memory"));
  // A context of 100 MB, and 1 MB for the rest.
  Bytes taken = 100'000'000 + (blocks_.empty() ? 0 : 1'000'000);
  for (const std::span<std::byte> block : blocks_) {
    taken += static_cast<Bytes>(block.size());
  }
  return DeviceMemory{.free = options_.total - taken, .total = options_.total};
}

Result<std::byte*> FakeDevice::Allocate(Bytes bytes) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("Allocate"));
  STOWAGE_ASSIGN_OR_RETURN(const DeviceMemory memory, Memory());
  if (bytes > memory.free) return OutOfMemory(traits_.name, bytes, memory);
  STOWAGE_CHECK(blocks_.size() < options_.blocks);
  ++live_;
  blocks_.emplace_back(NewBlock(bytes), static_cast<size_t>(bytes));
  return blocks_.back().data();
}

void FakeDevice::Free(std::byte* block) noexcept {
  const auto found = std::ranges::find(
      blocks_, block, [](std::span<std::byte> each) { return each.data(); });
  STOWAGE_CHECK(found != blocks_.end());
  --live_;
  DeleteBlock(block);
  blocks_.erase(found);
}

Result<PinnedBlock> FakeDevice::AllocatePinned(Bytes bytes) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("AllocatePinned"));
  ++live_;
  std::byte* const block = NewBlock(bytes);
  pinned_.emplace_back(block, static_cast<size_t>(bytes));
  return PinnedBlock{block, block};
}

void FakeDevice::FreePinned(const PinnedBlock& block) noexcept {
  --live_;
  std::erase_if(pinned_, [&block](std::span<std::byte> pinned) {
    return pinned.data() == block.host;
  });
  DeleteBlock(block.host);
}

Result<Stream> FakeDevice::CreateStream() {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("CreateStream"));
  ++live_;
  auto* const stream = new FakeStream;
  const bool lazy[] = {options_.lazy_compute, options_.lazy_copy,
                       options_.lazy_exchange};
  STOWAGE_CHECK(streams_ < 3);
  stream->lazy = lazy[streams_];
  ++streams_;
  return Stream{stream};
}

void FakeDevice::Destroy(Stream stream) noexcept {
  --live_;
  delete static_cast<FakeStream*>(stream.handle);
}

Result<Event> FakeDevice::CreateEvent() {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("CreateEvent"));
  ++live_;
  return Event{new FakeEvent};
}

void FakeDevice::Destroy(Event event) noexcept {
  --live_;
  delete static_cast<FakeEvent*>(event.handle);
}

void FakeDevice::Give(Stream handle, Work work) {
  auto& stream = *static_cast<FakeStream*>(handle.handle);
  if (stream.capture != nullptr) {
    stream.capture->push_back(std::move(work));
    return;
  }
  if (stream.joined != nullptr) {
    // When the graph runs, the work is given to its stream, as lazy as ever, where
    // it stands in the capture.
    ++stream.captured;
    stream.joined->push_back([this, handle, work] { Give(handle, work); });
    return;
  }
  stream.work.push_back(std::move(work));
  ++stream.given;
  if (!stream.lazy) RunUntil(stream, stream.given);
}

void FakeDevice::RunUntil(FakeStream& stream, uint64_t position) {
  while (stream.done < position) {
    const Work work = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.done;
    if (!broken_) work();
  }
}

// Within a capture an event stands for what the stream has been given in there.
Status FakeDevice::RecordInCapture(FakeEvent& event, FakeStream& of) {
  STOWAGE_CHECK(of.capture != nullptr || of.joined != nullptr);
  event = {.stream = &of, .position = of.captured, .in_capture = true};
  return {};
}

Status FakeDevice::AwaitInCapture(FakeStream& stream, FakeEvent& event) {
  STOWAGE_CHECK(event.in_capture);
  FakeStream& other = *event.stream;
  if (stream.capture == nullptr) {
    // The other stream's own capture: what follows is behind what it has now.
    STOWAGE_CHECK(other.capture != nullptr);
    if (stream.joined == nullptr) joined_.push_back(&stream);
    stream.joined = other.capture;
  } else if (other.joined != nullptr) {
    // Of what was given in this run of the graph, all up to the event.
    const uint64_t left = other.captured - event.position;
    other.awaited = std::max(other.awaited, event.position);
    stream.capture->push_back(
        [this, &other, left] { RunUntil(other, other.given - left); });
  }
  return {};
}

Status FakeDevice::Record(Event handle, Stream of) {
  if (capturing_) {
    STOWAGE_RETURN_IF_ERROR(Call("Record"));
    return RecordInCapture(*static_cast<FakeEvent*>(handle.handle),
                           *static_cast<FakeStream*>(of.handle));
  }
  STOWAGE_RETURN_IF_ERROR(CallInCapture("Record"));
  auto& event = *static_cast<FakeEvent*>(handle.handle);
  event.in_capture = false;
  event.stream = static_cast<FakeStream*>(of.handle);
  event.position = event.stream->given;
  return {};
}

Status FakeDevice::Await(Stream stream, Event handle) {
  if (capturing_) {
    STOWAGE_RETURN_IF_ERROR(Call("Await"));
    return AwaitInCapture(*static_cast<FakeStream*>(stream.handle),
                          *static_cast<FakeEvent*>(handle.handle));
  }
  STOWAGE_RETURN_IF_ERROR(CallInCapture("Await"));
  const FakeEvent event = *static_cast<FakeEvent*>(handle.handle);
  STOWAGE_CHECK(!event.in_capture);  // a captured event stands for nothing else
  if (event.stream == nullptr) return {};
  Give(stream, [this, event] { RunUntil(*event.stream, event.position); });
  return {};
}

Status FakeDevice::Synchronize(Event handle) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("SynchronizeEvent"));
  const FakeEvent event = *static_cast<FakeEvent*>(handle.handle);
  if (event.stream == nullptr || event.stream->done >= event.position) {
    return {};
  }
  RunUntil(*event.stream, event.position);
  return Call("Blocked");
}

Status FakeDevice::Synchronize(Stream handle) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("SynchronizeStream"));
  auto& stream = *static_cast<FakeStream*>(handle.handle);
  if (stream.done == stream.given) return {};
  RunUntil(stream, stream.given);
  return Call("Blocked");
}

bool FakeDevice::IsInBlock(const void* at, Bytes bytes) const {
  const auto* const begin = static_cast<const std::byte*>(at);
  return std::ranges::any_of(blocks_, [&](std::span<std::byte> block) {
    return begin >= block.data() &&
           begin + bytes <= block.data() + block.size();
  });
}

Status FakeDevice::Copy(void* to, const void* from, Bytes bytes,
                        Stream stream) {
  STOWAGE_RETURN_IF_ERROR(Call("Copy"));
  STOWAGE_CHECK(IsInBlock(to, bytes) || IsInBlock(from, bytes));
  Give(stream, [=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  return {};
}

Status FakeDevice::Fill(std::byte* to, uint8_t value, Bytes bytes,
                        Stream stream) {
  STOWAGE_RETURN_IF_ERROR(Call("Fill"));
  STOWAGE_CHECK(IsInBlock(to, bytes));
  Give(stream, [=] { std::memset(to, value, static_cast<size_t>(bytes)); });
  return {};
}

Status FakeDevice::Launch(const KernelCall& call, Stream stream) {
  STOWAGE_RETURN_IF_ERROR(Call("Launch"));
  const auto prepared = prepared_.find(call.function);
  STOWAGE_CHECK(prepared != prepared_.end() &&
                prepared->second >= call.dynamic_shared);
  STOWAGE_CHECK(call.threads % 32 == 0 && call.threads <= 1024);
  const auto* const bytes = static_cast<const std::byte*>(call.params);
  const std::vector<std::byte> params(bytes, bytes + call.params_bytes);
  if (capturing_) captured_.push_back({call.name, params});
  Give(stream, [this, call, params] {
    executed_.push_back(call.name);
    if (call.name == faulty_kernel_) {
      broken_ = true;
      return;
    }
    alignas(gpu::TensorMap) std::array<std::byte, gpu::kMaxParamBytes> aligned;
    std::memcpy(aligned.data(), params.data(), params.size());
    KernelCall with_params = call;
    with_params.params = aligned.data();
    if (const auto other = replaced_.find(call.name);
        other != replaced_.end()) {
      other->second(with_params);
      return;
    }
    std::vector<std::span<std::byte>> memory = pinned_;
    memory.insert(memory.end(), blocks_.begin(), blocks_.end());
    for (const auto& choices : choices_) {
      memory.push_back(std::as_writable_bytes(std::span(*choices)));
    }
    RunTestGrid(with_params, {.seed = options_.seed,
                              .warp_by_warp = options_.warp_by_warp,
                              .report = nullptr,
                              .memory = memory});
  });
  return {};
}

void FakeDevice::CheckProduct(const MatMulCall& call) const {
  const Bytes element = SizeOf(call.dtype);
  const auto check = [&](const std::byte* data, int64_t rows, int64_t columns,
                         int64_t stride, int64_t batch_stride) {
    const int64_t last =
        (call.batch - 1) * batch_stride + (rows - 1) * stride + columns - 1;
    STOWAGE_CHECK(IsInBlock(data, (last + 1) * element));
    STOWAGE_CHECK(reinterpret_cast<uintptr_t>(data) %
                      static_cast<uintptr_t>(element) ==
                  0);
    STOWAGE_CHECK(stride >= columns);
  };
  const bool at = call.a.transposed, bt = call.b.transposed;
  check(call.a.data, at ? call.k : call.m, at ? call.m : call.k, call.a.stride,
        call.a.batch_stride);
  check(call.b.data, bt ? call.n : call.k, bt ? call.k : call.n, call.b.stride,
        call.b.batch_stride);
  check(call.c, call.m, call.n, call.c_stride, call.c_batch_stride);
  for (const std::byte* matrix : {call.epilogue.addend, call.epilogue.gelu_x}) {
    if (matrix == nullptr) continue;
    check(matrix, call.m, call.n, call.c_stride, call.c_batch_stride);
  }
  if (call.epilogue.bias != nullptr)
    check(call.epilogue.bias, 1, call.n, call.n, 0);
  if (call.epilogue.a_sums != nullptr)
    check(call.epilogue.a_sums, 1, call.m, call.m, 0);
  if (call.epilogue.b_sums != nullptr)
    check(call.epilogue.b_sums, 1, call.n, call.n, 0);
  if (call.workspace_bytes == 0) return;
  STOWAGE_CHECK(call.workspace_bytes <= kWorkspaceCap);
  STOWAGE_CHECK(IsInBlock(call.workspace, call.workspace_bytes));
  STOWAGE_CHECK(reinterpret_cast<uintptr_t>(call.workspace) % 256 == 0);
}

void FakeDevice::Multiply(const MatMulCall& call) {
  executed_.push_back("product");
  // A real one uses its scratch.
  if (call.workspace_bytes > 0) {
    std::memset(call.workspace, 0xFF,
                static_cast<size_t>(call.workspace_bytes));
  }
  gpu::EmulatedQueue queue;
  queue.MatMul(call);
}

Status FakeDevice::MatMul(const MatMulCall& call, Stream stream) {
  STOWAGE_RETURN_IF_ERROR(Call("MatMul"));
  STOWAGE_CHECK(prepared_products_.contains(ShapeOf(call)));
  CheckProduct(call);
  Give(stream, [this, call] { Multiply(call); });
  return {};
}

Status FakeDevice::Exchange(std::span<const PeerMessages> messages,
                            Stream stream) {
  STOWAGE_RETURN_IF_ERROR(Call("Exchange"));
  for (const PeerMessages& each : messages) {
    STOWAGE_CHECK(each.peer != rank() && each.peer < ranks());
    for (const std::span<const std::byte> bytes :
         {each.sent, std::span<const std::byte>(each.received)}) {
      STOWAGE_CHECK(bytes.empty() ||
                    IsInBlock(bytes.data(), static_cast<Bytes>(bytes.size())));
    }
  }
  Give(stream, [this, all = std::vector(messages.begin(), messages.end())] {
    executed_.push_back("exchange");
    if (!ExchangeOver(*options_.link, all)) broken_ = true;
  });
  return {};
}

// Anywhere, also in a capture: it is the host's work.
Result<TensorMap> FakeDevice::Encode(const TensorMapSpec& spec) {
  STOWAGE_RETURN_IF_ERROR(Call("Encode"));
  STOWAGE_CHECK(options_.tensor_maps && IsInBlock(spec.data, 1));
  const std::optional<TensorMap> map = gpu::emulator::EncodeTensorMap(spec);
  if (map.has_value()) return *map;
  return Error{ErrorCode::kDevice, "[fake] no tensor map of such an array"};
}

Status FakeDevice::Prepare(const KernelCall& call) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("PrepareKernel"));
  if (call.name == refused_kernel_) return Failure(call.name);
  uint32_t& shared = prepared_[call.function];
  shared = std::max(shared, call.dynamic_shared);
  return {};
}

Status FakeDevice::Prepare(const MatMulCall& call, Stream stream) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("PrepareMatMul"));
  CheckProduct(call);
  if (options_.refuses_epilogues && call.epilogue.beyond_addend()) {
    return Error{ErrorCode::kUnsupported, "[fake] no such epilogue"};
  }
  if (prepared_products_.insert(ShapeOf(call)).second) {
    Give(stream, [this, call] { Multiply(call); });
  }
  return {};
}

bool FakeDevice::IsPrepared(const MatMulCall& call) const {
  return prepared_products_.contains(ShapeOf(call));
}

Result<double> FakeDevice::Time(Stream handle,
                                const std::function<Status()>& give) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("Time"));
  auto& stream = *static_cast<FakeStream*>(handle.handle);
  RunUntil(stream, stream.given);
  const size_t before = executed_.size();
  STOWAGE_RETURN_IF_ERROR(give());
  RunUntil(stream, stream.given);
  STOWAGE_RETURN_IF_ERROR(Call("Blocked"));
  double seconds = 0;
  for (size_t i = before; i < executed_.size(); ++i) {
    const auto known = seconds_.find(executed_[i]);
    seconds += known == seconds_.end() ? 1e-3 : known->second;
  }
  return seconds;
}

Status FakeDevice::BeginCapture(Stream stream) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("BeginCapture"));
  ++live_;
  static_cast<FakeStream*>(stream.handle)->capture = new std::vector<Work>;
  capturing_ = true;
  return {};
}

// Where a capture ends, or a part of it, nothing of other streams may be left out.
Status FakeDevice::LeaveCapture() {
  bool is_whole = true;
  for (FakeStream* const joined : joined_) {
    is_whole = is_whole && joined->awaited == joined->captured;
    joined->joined = nullptr;
    joined->captured = joined->awaited = 0;
  }
  joined_.clear();
  if (is_whole) return {};
  return Error{ErrorCode::kDevice,
               "[gpu] a stream that has joined the capture is not waited for"};
}

Result<DeviceGraph> FakeDevice::EndCapture(Stream handle) {
  STOWAGE_CHECK(capturing_);
  capturing_ = false;
  const Status left = LeaveCapture();
  auto& stream = *static_cast<FakeStream*>(handle.handle);
  DeviceGraph graph{std::exchange(stream.capture, nullptr)};
  const bool is_whole = open_.empty();
  if (!is_whole) graph.handle = root_;
  open_.clear();
  const Status called = Call("EndCapture");
  const Status status = called.ok() ? left : called;
  if (!status.ok() || !is_whole) {
    Destroy(graph);
    return status.ok() ? Error{ErrorCode::kDevice, "[gpu] not all bodies"}
                       : status.error();
  }
  return graph;
}

Status FakeDevice::LaunchGraph(DeviceGraph graph, Stream stream) {
  STOWAGE_RETURN_IF_ERROR(CallInCapture("LaunchGraph"));
  const auto* const work = static_cast<std::vector<Work>*>(graph.handle);
  Give(stream, [this, work] {
    for (const Work& piece : *work) {
      if (!broken_) piece();
    }
    for (const Work& piece : std::exchange(late_, {})) piece();
  });
  return {};
}

void FakeDevice::Destroy(DeviceGraph graph) noexcept {
  --live_;
  delete static_cast<std::vector<Work>*>(graph.handle);
}

Status FakeDevice::HasBranches() const {
  if (options_.branches != FakeBranches::kNone) return {};
  return Error{ErrorCode::kUnsupported, "[fake] no branches in graphs"};
}

Result<GraphChoice> FakeDevice::NewChoice(Stream) {
  STOWAGE_CHECK(capturing_);
  STOWAGE_RETURN_IF_ERROR(Call("NewChoice"));
  if (choices_left_ == 0) {
    choices_.push_back(std::make_unique<std::array<uint32_t, 4096>>());
    choices_.back()->fill(kUnset);
    choices_left_ = choices_.back()->size();
  }
  uint32_t& choice = (*choices_.back())[--choices_left_];
  return GraphChoice{reinterpret_cast<uint64_t>(&choice)};
}

Status FakeDevice::BeginBranch(GraphChoice choice, size_t bodies,
                               Stream handle) {
  STOWAGE_CHECK(capturing_ && bodies > 0);
  STOWAGE_RETURN_IF_ERROR(Call("BeginBranch"));
  STOWAGE_RETURN_IF_ERROR(LeaveCapture());
  auto& stream = *static_cast<FakeStream*>(handle.handle);
  const auto branch = std::make_shared<FakeBranch>();
  branch->choice = reinterpret_cast<uint32_t*>(choice.handle);
  branch->bodies.resize(bodies);
  stream.capture->push_back([this, branch] { RunBranch(*branch); });
  if (open_.empty()) root_ = stream.capture;
  open_.push_back({branch, stream.capture});
  stream.capture = &branch->bodies[0];
  return {};
}

Status FakeDevice::NextBody(Stream handle) {
  STOWAGE_CHECK(capturing_ && !open_.empty());
  STOWAGE_RETURN_IF_ERROR(Call("NextBody"));
  STOWAGE_RETURN_IF_ERROR(LeaveCapture());
  auto& stream = *static_cast<FakeStream*>(handle.handle);
  OpenBranch& open = open_.back();
  if (++open.body < open.branch->bodies.size()) {
    stream.capture = &open.branch->bodies[open.body];
    return {};
  }
  stream.capture = open.around;
  open_.pop_back();
  return {};
}

void FakeDevice::RunBranch(const FakeBranch& branch) {
  size_t chosen = std::exchange(*branch.choice, kUnset);
  STOWAGE_CHECK(chosen != kUnset);  // in this launch
  if (options_.branches == FakeBranches::kFirst) chosen = 0;
  if (options_.branches == FakeBranches::kNever) return;
  if (chosen >= branch.bodies.size()) return;
  const std::vector<Work>& body = branch.bodies[chosen];
  if (options_.branches == FakeBranches::kLate) {
    late_.insert(late_.end(), body.begin(), body.end());
    return;
  }
  for (const Work& piece : body) {
    if (!broken_) piece();
  }
}

std::unique_ptr<Backend> MakeFakeBackend(const FakeOptions& options,
                                         FakeDevice** device) {
  auto fake = std::make_unique<FakeDevice>(options);
  if (device != nullptr) *device = fake.get();
  auto backend = gpu::MakeGpuBackend(std::move(fake), options.backend);
  STOWAGE_CHECK(backend.ok());
  return *std::move(backend);
}

}  // namespace stowage::testing
