#include "cluster/lifeline.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <sstream>
#include <utility>

#include "base/strings.h"

namespace stowage::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Timeouts of connecting all ranks, and of one address.
constexpr milliseconds kMeeting{30000};
constexpr milliseconds kAnswering{3000};

// The time that a rank that gives up waits for rank 0 to end.
constexpr milliseconds kParting{5000};

constexpr size_t kTokenBytes = 16;
constexpr size_t kMaxText = 2048;
// The maximum number of silent connections; beyond it the oldest is dropped.
constexpr size_t kMaxStrangers = 512;

enum class Kind : uint32_t {
  kHello,    // of a new connection: its rank, and as text token and host
  kBeat,     // still here
  kDone,     // this rank is done
  kAllDone,  // rank 0: all ranks are
  kLost,     // rank 0: a rank is lost
  kGaveUp    // a rank ends before its time
};

struct Header {
  Kind kind = Kind::kBeat;
  int32_t rank = 0;
  int32_t exit_code = 0;
  uint32_t text_bytes = 0;
};

std::string Frame(Kind kind, int rank, int exit_code = 0,
                  std::string_view text = {}) {
  text = text.substr(0, kMaxText);
  const Header header{kind, rank, exit_code,
                      static_cast<uint32_t>(text.size())};
  std::string frame(sizeof(header), '\0');
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame.append(text);
}

Error Fail(std::string_view what) {
  return {ErrorCode::kDevice,
          StrCat("[cluster] ", what, ": ", std::strerror(errno))};
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

class Socket {
 public:
  explicit Socket(int number) : number_(number) {}
  ~Socket() {
    if (number_ >= 0) ::close(number_);
  }
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }

 private:
  int number_;
};

// Milliseconds for poll.
int Left(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max(left, milliseconds(0)).count());
}

// poll until the deadline, regardless of signals. Returns the number of ready descriptors.
int Poll(std::span<pollfd> waiting, Clock::time_point deadline) {
  while (true) {
    const int ready = ::poll(waiting.data(), waiting.size(), Left(deadline));
    if (ready >= 0) return ready;
    for (pollfd& each : waiting) each.revents = 0;
    if (errno != EINTR) return 0;
  }
}

bool WaitFor(int socket, short events, Clock::time_point deadline) {
  pollfd waiting = {.fd = socket, .events = events, .revents = 0};
  return Poll(std::span(&waiting, 1), deadline) > 0;
}

enum class Arrival { kPart, kWhole, kNever };

// Appends received bytes to `frame`, up to the end of one frame.
Arrival ReadSome(int socket, std::string* frame) {
  while (true) {
    size_t size = sizeof(Header);
    if (frame->size() >= size) {
      Header header;
      std::memcpy(&header, frame->data(), sizeof(header));
      if (header.text_bytes > kMaxText) return Arrival::kNever;
      size += header.text_bytes;
    }
    if (frame->size() == size) return Arrival::kWhole;
    const size_t got = frame->size();
    frame->resize(size);
    const ssize_t count =
        ::recv(socket, frame->data() + got, size - got, MSG_DONTWAIT);
    frame->resize(got + static_cast<size_t>(std::max(count, ssize_t{0})));
    if (count > 0 || (count < 0 && errno == EINTR)) continue;
    return count < 0 && errno == EAGAIN ? Arrival::kPart : Arrival::kNever;
  }
}

// The first frame of a connection; absent on an error.
std::string ReadFrame(int socket, Clock::time_point deadline) {
  std::string frame;
  while (true) {
    const Arrival arrival = ReadSome(socket, &frame);
    if (arrival == Arrival::kWhole) return frame;
    if (arrival == Arrival::kNever || !WaitFor(socket, POLLIN, deadline)) {
      return {};
    }
  }
}

// The addresses of this host, that of its name first.
std::vector<std::string> Addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (each->ifa_addr->sa_family == AF_INET) {
      const auto* const v4 = reinterpret_cast<sockaddr_in*>(each->ifa_addr);
      inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto* const v6 = reinterpret_cast<sockaddr_in6*>(each->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;  // needs a scope
      inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    } else {
      continue;
    }
    addresses.emplace_back(text);
  }
  freeifaddrs(list);
  return addresses;
}

// Connects to an address; an empty socket on failure.
Socket ConnectTo(const std::string& address, int port) {
  sockaddr_storage to = {};
  socklen_t size = 0;
  if (auto* const v4 = reinterpret_cast<sockaddr_in*>(&to);
      inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    size = sizeof(*v4);
  } else if (auto* const v6 = reinterpret_cast<sockaddr_in6*>(&to);
             inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof(*v6);
  } else {
    return Socket(-1);
  }
  Socket socket(
      ::socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return socket;
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), size) == 0) {
    return socket;
  }
  int failed = 0;
  socklen_t length = sizeof(failed);
  if (errno != EINPROGRESS ||
      !WaitFor(socket.get(), POLLOUT, Clock::now() + kAnswering) ||
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &length) != 0 ||
      failed != 0) {
    return Socket(-1);
  }
  return socket;
}

// Sends small frames without delay (TCP_NODELAY).
void SendAtOnce(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Listens on a port chosen by the system, by IPv6 and IPv4 if available.
Result<std::pair<Socket, int>> ListenSomewhere() {
  for (const int family : {AF_INET6, AF_INET}) {
    Socket socket(
        ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) continue;
    const int off = 0;
    sockaddr_storage any = {};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t size =
        family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET6) {
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    if (::bind(socket.get(), address, size) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0 ||
        getsockname(socket.get(), address, &size) != 0) {
      continue;
    }
    // The port has the same offset in both.
    const int port = ntohs(reinterpret_cast<sockaddr_in*>(&any)->sin_port);
    return std::pair(std::move(socket), port);
  }
  return Fail("no socket can be had to listen on");
}

std::string NewToken() {
  std::random_device random;
  std::string token;
  for (size_t i = 0; i < kTokenBytes; ++i) {
    token += static_cast<char>('a' + random() % 26);
  }
  return token;
}

}  // namespace

// A connection, and its incomplete frame.
struct Lifeline::Peer {
  Socket socket{-1};
  int rank = 0;
  std::string host;
  std::string read;
  Clock::time_point heard = Clock::now();
  bool done = false;
};

// A connection that is not identified yet, and its incomplete first frame.
struct Lifeline::Stranger {
  Socket socket;
  std::string read;
};

Lifeline::Lifeline(int rank, int ranks, const LifelineOptions& options)
    : rank_(rank), ranks_(ranks), options_(options) {}

Result<std::unique_ptr<Lifeline>> Lifeline::Tie(
    RankCollectives& collectives, const LifelineOptions& options) {
  std::unique_ptr<Lifeline> line(
      new Lifeline(collectives.rank(), collectives.ranks(), options));
  // Rank 0 listens, and broadcasts its addresses over the link.
  const std::string token = NewToken();
  Status status;
  Socket listener(-1);
  std::string invitation;
  if (line->rank_ == 0) {
    Result<std::pair<Socket, int>> listening = ListenSomewhere();
    if (listening.ok()) {
      listener = std::move(listening->first);
      invitation = StrCat(token, " ", listening->second, " ", HostName());
      for (const std::string& each : Addresses()) {
        invitation += StrCat(" ", each);
      }
    } else {
      status = listening.error();
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           GatherTexts(collectives, invitation));
  if (!texts[0].empty()) {
    status = line->rank_ == 0 ? line->Accept(listener.get(), token)
                              : line->Connect(texts[0]);
  }
  // Either all ranks start or none.
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<std::string> errors,
      GatherTexts(collectives, status.ok() ? "" : status.error().message));
  // A rank's own error is more informative than its absence.
  for (size_t i = errors.size(); i-- > 0;) {
    if (!errors[i].empty()) return Error{ErrorCode::kDevice, errors[i]};
  }
  STOWAGE_RETURN_IF_ERROR(line->Open());
  return line;
}

Status Lifeline::Open() {
  if (pipe2(wake_, O_CLOEXEC) != 0) return Fail("no pipe can be had");
  for (const auto& peer : peers_) peer->heard = Clock::now();
  thread_ = std::thread([this] { Watch(); });
  return {};
}

Status Lifeline::Accept(int listener, const std::string& token) {
  const Clock::time_point deadline = Clock::now() + kMeeting;
  // Unrelated programs may connect and send nothing; they are not waited for.
  std::deque<Stranger> strangers;
  std::vector<pollfd> waiting;
  while (std::ssize(peers_) < ranks_ - 1) {
    waiting.assign(1, {.fd = listener, .events = POLLIN, .revents = 0});
    for (const Stranger& each : strangers) {
      waiting.push_back(
          {.fd = each.socket.get(), .events = POLLIN, .revents = 0});
    }
    // Further connections do not extend the deadline.
    if (Poll(waiting, deadline) == 0 || Clock::now() > deadline) {
      errno = ETIMEDOUT;
      return Fail(StrCat("of ", ranks_ - 1, " other ranks only ", peers_.size(),
                         " have reached rank 0 on ", HostName()));
    }
    for (size_t i = strangers.size(); i-- > 0;) {
      Stranger& each = strangers[i];
      if (waiting[i + 1].revents == 0) continue;
      const Arrival arrival = ReadSome(each.socket.get(), &each.read);
      if (arrival == Arrival::kPart) continue;
      if (arrival == Arrival::kWhole) Welcome(std::move(each), token);
      strangers.erase(strangers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (waiting[0].revents == 0) continue;
    Socket socket(
        ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool is_full = errno == EMFILE || errno == ENFILE;
    if (socket.get() < 0 && is_full && !strangers.empty()) {
      // Out of descriptors: drops the oldest silent connection.
      strangers.pop_front();
    }
    if (socket.get() < 0) continue;
    SendAtOnce(socket);
    if (strangers.size() == kMaxStrangers) strangers.pop_front();
    strangers.push_back({std::move(socket), {}});
  }
  return {};
}

// Accepts a rank that has sent the token; drops other connections.
void Lifeline::Welcome(Stranger stranger, const std::string& token) {
  const std::string& frame = stranger.read;
  Header hello;
  std::memcpy(&hello, frame.data(), sizeof(hello));
  if (hello.kind != Kind::kHello || hello.rank < 1 || hello.rank >= ranks_ ||
      frame.compare(sizeof(Header), kTokenBytes, token) != 0) {
    return;
  }
  // A rank that timed out connects again, by the next address.
  std::erase_if(peers_, [&hello](const auto& known) {
    return known->rank == hello.rank;
  });
  auto peer = std::make_unique<Peer>();
  peer->socket = std::move(stranger.socket);
  peer->rank = hello.rank;
  peer->host = frame.substr(sizeof(Header) + kTokenBytes);
  Send(*peer, Frame(Kind::kHello, rank_, 0, token));
  peers_.push_back(std::move(peer));
}

Status Lifeline::Connect(const std::string& invitation) {
  std::istringstream words(invitation);
  std::string token, host, address, tried;
  int port = 0;
  words >> token >> port >> host;
  while (words >> address) {
    tried += StrCat(tried.empty() ? "" : ", ", address);
    auto peer = std::make_unique<Peer>();
    peer->socket = ConnectTo(address, port);
    if (peer->socket.get() < 0) continue;
    SendAtOnce(peer->socket);
    peer->host = host;
    Send(*peer, Frame(Kind::kHello, rank_, 0, StrCat(token, HostName())));
    // Another host may have the same address, and another program the same port.
    const std::string welcome =
        ReadFrame(peer->socket.get(), Clock::now() + kAnswering);
    if (welcome != Frame(Kind::kHello, 0, 0, token)) continue;
    peers_.push_back(std::move(peer));
    return {};
  }
  return Error{ErrorCode::kDevice,
               StrCat("[cluster] rank ", rank_, " on ", HostName(),
                      " does not reach rank 0 on ", host, " at port ", port,
                      " of ", tried.empty() ? "no address" : tried,
                      "; the hosts of a run must reach each other by TCP")};
}

Lifeline::~Lifeline() {
  if (thread_.joinable()) {
    ::close(std::exchange(wake_[1], -1));
    thread_.join();
  }
  for (const int end : wake_) {
    if (end >= 0) ::close(end);
  }
}

void Lifeline::GiveUp(int exit_code, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    gave_up_ = true;
    SendAll(Frame(Kind::kGaveUp, rank_, exit_code, why));
  }
  if (rank_ == 0) return;
  const Clock::time_point deadline = Clock::now() + kParting;
  const int rank0 = peers_.front()->socket.get();
  char ignored[256];
  while (WaitFor(rank0, POLLIN, deadline)) {
    const ssize_t count = ::recv(rank0, ignored, sizeof(ignored), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

bool Lifeline::Untie() {
  std::unique_lock lock(mutex_);
  is_done_ = true;
  if (rank_ == 0) {
    NoteDone();
  } else {
    SendAll(Frame(Kind::kDone, rank_));
  }
  changed_.wait(lock, [&] { return all_done_ || broken_; });
  return all_done_;
}

// Rank 0 learns first that all are done.
void Lifeline::NoteDone() {
  const bool all =
      is_done_ && std::all_of(peers_.begin(), peers_.end(),
                              [](const auto& peer) { return peer->done; });
  if (!all) return;
  SendAll(Frame(Kind::kAllDone, rank_));
  all_done_ = true;
  changed_.notify_all();
}

// Frames are small. A connection that accepts no more of them counts as silent, and its end is
// detected as lost.
void Lifeline::Send(Peer& peer, const std::string& frame) {
  static_cast<void>(::send(peer.socket.get(), frame.data(), frame.size(),
                           MSG_NOSIGNAL | MSG_DONTWAIT));
}

void Lifeline::SendAll(const std::string& frame) {
  for (const auto& peer : peers_) Send(*peer, frame);
}

void Lifeline::End(RankEnd end) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_ || all_done_ || gave_up_) return;
    if (rank_ == 0) {
      SendAll(Frame(end.lost ? Kind::kLost : Kind::kGaveUp, end.rank,
                    end.exit_code, end.why));
    }
    broken_ = true;
    changed_.notify_all();
  }
  if (options_.on_end) options_.on_end(end);
}

// Returns whether to go on.
bool Lifeline::Take(Peer& peer, const std::string& frame) {
  Header header;
  std::memcpy(&header, frame.data(), sizeof(header));
  switch (header.kind) {
    case Kind::kHello:
    case Kind::kBeat:
      return true;
    case Kind::kDone: {
      const std::lock_guard lock(mutex_);
      peer.done = true;
      NoteDone();
      return !all_done_;
    }
    case Kind::kAllDone: {
      const std::lock_guard lock(mutex_);
      all_done_ = true;
      changed_.notify_all();
      return false;
    }
    case Kind::kLost:
    case Kind::kGaveUp:
      break;
  }
  End({.rank = header.rank,
       .lost = header.kind == Kind::kLost,
       .exit_code = header.exit_code,
       .why = frame.substr(sizeof(header))});
  return false;
}

// Reads received frames. Returns false at the end of the connection.
bool Lifeline::Read(Peer& peer) {
  char bytes[4096];
  const ssize_t count =
      ::recv(peer.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) {
    End({.rank = peer.rank,
         .why = StrCat("[cluster] rank ", peer.rank, " of ", ranks_, ", on ",
                       peer.host,
                       ", is lost: its connection has closed, as when its "
                       "process dies")});
    return false;
  }
  peer.heard = Clock::now();
  peer.read.append(bytes, static_cast<size_t>(count));
  while (peer.read.size() >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, peer.read.data(), sizeof(header));
    const size_t size = sizeof(header) + header.text_bytes;
    if (peer.read.size() < size) break;
    const std::string frame = peer.read.substr(0, size);
    peer.read.erase(0, size);
    if (!Take(peer, frame)) return false;
  }
  return true;
}

void Lifeline::Watch() {
  std::vector<pollfd> waiting;
  for (const auto& peer : peers_) {
    waiting.push_back(
        {.fd = peer->socket.get(), .events = POLLIN, .revents = 0});
  }
  waiting.push_back({.fd = wake_[0], .events = POLLIN, .revents = 0});
  Clock::time_point next_beat = Clock::now(), last = next_beat;
  while (true) {
    static_cast<void>(Poll(waiting, next_beat));
    if (waiting.back().revents != 0) return;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (waiting[i].revents != 0 && !Read(*peers_[i])) return;
    }
    // After reading, since frames may have waited for this process.
    const Clock::time_point now = Clock::now();
    if (now - last > options_.lost_after / 2) {
      // This process was suspended, perhaps with all others, as by Slurm: restarts the
      // timeouts.
      for (const auto& peer : peers_) peer->heard = now;
    }
    last = now;
    for (const auto& peer : peers_) {
      if (now - peer->heard <= options_.lost_after) continue;
      const auto seconds = std::chrono::duration<double>(options_.lost_after);
      End({.rank = peer->rank,
           .why = StrCat("[cluster] rank ", peer->rank, " of ", ranks_, ", on ",
                         peer->host, ", is lost: nothing was heard of it for ",
                         seconds.count(),
                         " s; its process is stopped, or its host or the "
                         "network to it is gone")});
      return;
    }
    if (now < next_beat) continue;
    next_beat = now + options_.beat;
    const std::lock_guard lock(mutex_);
    SendAll(Frame(Kind::kBeat, rank_));
  }
}

}  // namespace stowage::cluster
