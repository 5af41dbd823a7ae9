// A library that looks like NCCL to whoever opens it: ranks are threads of one process,
// a "stream" is nothing, and what is sent lies in memory until it is received. It insists
// on groups. $FAKE_NCCL_FAILS makes it refuse to join ranks.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidUsage = 5;

struct Communicator {
  int ranks = 0;
  int rank = 0;
};

struct Message {
  void* data = nullptr;
  size_t bytes = 0;
  int peer = 0;
  Communicator* of = nullptr;
};

std::mutex mutex;
std::condition_variable arrived;
std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> mail;

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
  id->bytes.fill(7);
  return kSuccess;
}

int ncclCommInitRank(void** communicator, int ranks, UniqueId id, int rank) {
  if (std::getenv("FAKE_NCCL_FAILS") != nullptr) return kInvalidUsage;
  for (const char byte : id.bytes) {
    if (byte != 7) return kInvalidUsage;  // not the one of rank 0
  }
  *communicator = new Communicator{ranks, rank};
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
    mail[{each.of->rank, each.peer}].emplace_back(from, from + each.bytes);
  }
  arrived.notify_all();
  for (const Message& each : std::exchange(receives, {})) {
    auto& box = mail[{each.peer, each.of->rank}];
    arrived.wait(lock, [&box] { return !box.empty(); });
    if (box.front().size() != each.bytes) return kInvalidUsage;
    std::memcpy(each.data, box.front().data(), each.bytes);
    box.pop_front();
  }
  return kSuccess;
}

const char* ncclGetErrorString(int) { return "invalid usage"; }

}  // extern "C"
