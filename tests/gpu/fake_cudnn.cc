// A library that looks like cuDNN to who opens it: it has the property of device 0, in
// $FAKE_CUDNN_PROPERTY, and insists on the order of the calls. $FAKE_CUDNN_LACKS makes it
// one that knows no such property.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotFinalized = 2004, kNotSupported = 3000;
constexpr int kBadParam = 2000;

struct Property {
  int32_t device = -1;
  bool finalized = false;
};

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }

const char* cudnnGetErrorString(int status) {
  return status == kNotFinalized   ? "NOT_FINALIZED"
         : status == kNotSupported ? "NOT_SUPPORTED"
         : status == kBadParam     ? "BAD_PARAM"
                                   : "SUCCESS";
}

int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  if (type != 38 || std::getenv("FAKE_CUDNN_LACKS") != nullptr) {
    return kNotSupported;
  }
  *descriptor = new Property;
  return kSuccess;
}

int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Property*>(descriptor);
  return kSuccess;
}

int cudnnBackendSetAttribute(void* descriptor, int name, int type,
                             int64_t count, const void* value) {
  if (name != 2700 || type != 23 || count != 1) return kBadParam;
  std::memcpy(&static_cast<Property*>(descriptor)->device, value,
              sizeof(int32_t));
  return kSuccess;
}

int cudnnBackendFinalize(void* descriptor) {
  auto* const property = static_cast<Property*>(descriptor);
  if (property->device != 0) return kBadParam;
  property->finalized = true;
  return kSuccess;
}

int cudnnBackendGetAttribute(void* descriptor, int name, int type,
                             int64_t asked, int64_t* count, void* value) {
  if (!static_cast<Property*>(descriptor)->finalized) return kNotFinalized;
  if (name != 2702 || type != 24) return kBadParam;
  const char* const json = std::getenv("FAKE_CUDNN_PROPERTY");
  *count = static_cast<int64_t>(std::strlen(json)) + 1;
  if (value == nullptr) return kSuccess;
  if (asked < *count) return kBadParam;
  std::memcpy(value, json, static_cast<size_t>(*count));
  return kSuccess;
}

}  // extern "C"
