#include "runtime/host_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

std::string Reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

// Creates a file without a name, or unlinks it immediately.
int OpenNameless(const std::string& folder) {
  const int descriptor =
      open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
    return descriptor;
  }
  std::string path = folder + "/stowage-offload-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

uint64_t DigestOf(std::span<const std::byte> block, Bytes index) {
  return Xxh64({reinterpret_cast<const char*>(block.data()), block.size()},
               static_cast<uint64_t>(index));
}

}  // namespace

HostFile::HostFile(int descriptor, std::string folder, Bytes bytes)
    : descriptor_(descriptor),
      folder_(std::move(folder)),
      bytes_(AlignUp(bytes, kBlock)),
      digests_(Index(bytes_ / kBlock)),
      block_(Index(kBlock)) {
  for (size_t b = 0; b < digests_.size(); ++b) {
    digests_[b] = DigestOf(block_, static_cast<Bytes>(b));
  }
}

HostFile::~HostFile() {
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
  close(descriptor_);
}

Result<std::unique_ptr<HostFile>> HostFile::Create(const std::string& folder,
                                                   Bytes bytes,
                                                   Bytes alignment) {
  const int descriptor = OpenNameless(folder);
  if (descriptor < 0) {
    return Error{
        ErrorCode::kIo,
        StrCat("[offload] no file for offloaded values can be made in ",
               Quoted(folder), ": ", Reason(errno),
               "; give a folder that can be written by --offload-dir")};
  }
  std::unique_ptr<HostFile> file(new HostFile(descriptor, folder, bytes));
  STOWAGE_RETURN_IF_ERROR(file->Allocate(alignment));
  return file;
}

Status HostFile::Allocate(Bytes alignment) {
  const int error = posix_fallocate(descriptor_, 0, bytes_);
  if (error != 0) {
    struct statvfs disk = {};
    const bool is_known = fstatvfs(descriptor_, &disk) == 0;
    return Error{ErrorCode::kIo,
                 StrCat("[offload] ", FormatBytes(bytes_), " (", bytes_,
                        " bytes) for offloaded values cannot be allocated in ",
                        Quoted(folder_), ": ", Reason(error),
                        is_known ? StrCat("; ", disk.f_bavail * disk.f_frsize,
                                          " bytes are free there")
                                 : "",
                        "; give another folder by --offload-dir")};
  }
  struct statfs system = {};
  is_in_memory_ = fstatfs(descriptor_, &system) == 0 &&
                  (system.f_type == TMPFS_MAGIC ||
                   static_cast<uint64_t>(system.f_type) == RAMFS_MAGIC);
  reserved_bytes_ = Index(bytes_ + alignment);
  void* const reserved =
      mmap(nullptr, reserved_bytes_, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return Error{ErrorCode::kDevice,
                 StrCat("[offload] ", reserved_bytes_,
                        " addresses cannot be reserved: ", Reason(errno))};
  }
  reserved_ = reserved;
  const auto first = reinterpret_cast<uintptr_t>(reserved);
  const auto slot = static_cast<uintptr_t>(alignment);
  base_ = static_cast<std::byte*>(reserved) + (slot - first % slot) % slot;
  return {};
}

bool HostFile::Fail(const char* doing, Bytes at, int error) noexcept {
  if (doing_ == nullptr) {
    doing_ = doing;
    failed_at_ = at;
    error_ = error;
  }
  return false;
}

std::string HostFile::failure() const {
  if (doing_ == nullptr) return {};
  return StrCat("[offload] ", doing_, " byte ", failed_at_,
                " of the file of offloaded values in ", Quoted(folder_),
                " failed: ",
                error_ == 0 ? "the bytes are not those that were written"
                            : Reason(error_),
                "; what is in the last checkpoint is whole");
}

bool HostFile::ReadWhole(Bytes at, std::span<std::byte> to) noexcept {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Fail("reading", at, count < 0 ? errno : ENODATA);
    to = to.subspan(static_cast<size_t>(count));
    at += count;
  }
  return true;
}

bool HostFile::WriteWhole(Bytes at, std::span<const std::byte> from) noexcept {
  while (!from.empty()) {
    const ssize_t count = pwrite(descriptor_, from.data(), from.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Fail("writing", at, count < 0 ? errno : EIO);
    from = from.subspan(static_cast<size_t>(count));
    at += count;
  }
  return true;
}

bool HostFile::Check(Bytes at, std::span<const std::byte> block) noexcept {
  const Bytes index = at / kBlock;
  if (DigestOf(block, index) == digests_[Index(index)]) return true;
  return Fail("reading", at, 0);
}

// Copies whole blocks.
bool HostFile::ReadBlocks(Bytes at, std::span<std::byte> to) noexcept {
  if (!ReadWhole(at, to)) return false;
  for (; !to.empty(); to = to.subspan(Index(kBlock)), at += kBlock) {
    if (!Check(at, to.first(Index(kBlock)))) return false;
  }
  return true;
}

bool HostFile::Read(const std::byte* at, std::span<std::byte> to) noexcept {
  Bytes from = at - base_;
  STOWAGE_CHECK(from >= 0 && from + std::ssize(to) <= bytes_);
  if (doing_ != nullptr) return false;
  while (!to.empty()) {
    const Bytes begin = from % kBlock;
    Bytes count = std::ssize(to) / kBlock * kBlock;
    if (begin == 0 && count > 0) {
      if (!ReadBlocks(from, to.first(Index(count)))) return false;
    } else {
      count = std::min<Bytes>(kBlock - begin, std::ssize(to));
      if (!ReadBlocks(from - begin, block_)) return false;
      std::memcpy(to.data(), block_.data() + begin, Index(count));
    }
    to = to.subspan(Index(count));
    from += count;
  }
  return true;
}

bool HostFile::Write(const std::byte* at,
                     std::span<const std::byte> from) noexcept {
  Bytes to = at - base_;
  STOWAGE_CHECK(to >= 0 && to + std::ssize(from) <= bytes_);
  if (doing_ != nullptr) return false;
  while (!from.empty()) {
    const Bytes begin = to % kBlock;
    Bytes count = std::ssize(from) / kBlock * kBlock;
    if (begin == 0 && count > 0) {
      for (Bytes done = 0; done < count; done += kBlock) {
        const Bytes index = (to + done) / kBlock;
        digests_[Index(index)] =
            DigestOf(from.subspan(Index(done), Index(kBlock)), index);
      }
    } else {
      // The rest of the block stays, and its digest is of both.
      count = std::min<Bytes>(kBlock - begin, std::ssize(from));
      if (!ReadBlocks(to - begin, block_)) return false;
      std::memcpy(block_.data() + begin, from.data(), Index(count));
      digests_[Index(to / kBlock)] = DigestOf(block_, to / kBlock);
    }
    if (!WriteWhole(to, from.first(Index(count)))) return false;
    from = from.subspan(Index(count));
    to += count;
  }
  return true;
}

bool HostFile::Fill(const std::byte* at, Bytes bytes, uint8_t value) noexcept {
  std::byte part[4096];
  std::memset(part, value, sizeof(part));
  for (Bytes done = 0; done < bytes; done += Bytes{sizeof(part)}) {
    const auto count = std::min<Bytes>(bytes - done, sizeof(part));
    if (!Write(at + done, std::span(part).first(Index(count)))) return false;
  }
  return true;
}

}  // namespace stowage
