// A library that looks like NCCL to whoever opens it: ranks are threads of one process,
// a "stream" is nothing, and what is sent lies in memory until it is received. It insists
// on groups. $FAKE_NCCL_FAILS makes it refuse to join ranks.
//
// What is sent lies under a lock, apart for each id that ranks have joined by; a group
// belongs to the thread that began it, as NCCL has it.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidUsage = 5;

struct Communicator {
  int id = 0;
  int ranks = 0;
  int rank = 0;
};

struct Message {
  void* data = nullptr;
  size_t bytes = 0;
  int peer = 0;
  Communicator* of = nullptr;
};

// Under the lock.
std::mutex mutex;
std::condition_variable arrived;
int last_id = 0;
// By id, sender and receiver.
std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> mail;

thread_local bool in_group = false;
thread_local std::vector<Message> sends, receives;

int Note(std::vector<Message>* list, const Message& message, int type) {
  const bool is_good = in_group && type == 1 && message.peer >= 0 &&
                       message.peer < message.of->ranks &&
                       message.peer != message.of->rank;
  if (!is_good) return kInvalidUsage;
  list->push_back(message);
  return kSuccess;
}

}  // namespace

extern "C" {

struct UniqueId {
  std::array<char, 128> bytes;
};

int ncclGetVersion(int* version) {
  *version = 22703;
  return kSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(mutex);
  ++last_id;
  id->bytes.fill(7);
  std::memcpy(id->bytes.data(), &last_id, sizeof(last_id));
  return kSuccess;
}

int ncclCommInitRank(void** communicator, int ranks, UniqueId id, int rank) {
  if (std::getenv("FAKE_NCCL_FAILS") != nullptr) return kInvalidUsage;
  int joined = 0;
  std::memcpy(&joined, id.bytes.data(), sizeof(joined));
  for (size_t i = sizeof(joined); i < id.bytes.size(); ++i) {
    if (id.bytes[i] != 7) return kInvalidUsage;  // not the one of rank 0
  }
  *communicator = new Communicator{joined, ranks, rank};
  return kSuccess;
}

int ncclCommDestroy(void* communicator) {
  delete static_cast<Communicator*>(communicator);
  return kSuccess;
}

int ncclGroupStart() {
  in_group = true;
  return kSuccess;
}

int ncclSend(const void* data, size_t bytes, int type, int peer,
             void* communicator, void*) {
  return Note(&sends,
              {const_cast<void*>(data), bytes, peer,
               static_cast<Communicator*>(communicator)},
              type);
}

int ncclRecv(void* data, size_t bytes, int type, int peer, void* communicator,
             void*) {
  return Note(&receives,
              {data, bytes, peer, static_cast<Communicator*>(communicator)},
              type);
}

int ncclGroupEnd() {
  in_group = false;
  std::unique_lock lock(mutex);
  for (const Message& each : std::exchange(sends, {})) {
    const auto* const from = static_cast<const std::byte*>(each.data);
    mail[{each.of->id, each.of->rank, each.peer}].emplace_back(
        from, from + each.bytes);
  }
  arrived.notify_all();
  for (const Message& each : std::exchange(receives, {})) {
    auto& box = mail[{each.of->id, each.peer, each.of->rank}];
    arrived.wait(lock, [&box] { return !box.empty(); });
    if (box.front().size() != each.bytes) return kInvalidUsage;
    std::memcpy(each.data, box.front().data(), each.bytes);
    box.pop_front();
  }
  return kSuccess;
}

const char* ncclGetErrorString(int) { return "invalid usage"; }

}  // extern "C"
