#include "gpu/nvidia_libraries.h"

#include <glob.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/strings.h"

namespace stowage::gpu {
namespace {

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// The paths that match a pattern such as "/usr/lib/python3*/x".
std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

}  // namespace

std::vector<std::string> PlacesOf(const NvidiaLibrary& library,
                                  const std::string& given) {
  const std::string& file = library.file;
  const std::string chosen = given.empty() ? Variable(library.variable) : given;
  if (!chosen.empty()) {
    return {IsFolder(chosen) ? StrCat(chosen, "/", file) : chosen};
  }
  std::vector<std::string> places = {file};
  for (const std::string& root :
       {Variable("CUDA_HOME"), Variable("CUDA_PATH"), Variable("CONDA_PREFIX"),
        std::string("/usr/local/cuda"),
        StrCat("/usr/local/cuda-", library.cuda)}) {
    if (root.empty()) continue;
    places.push_back(StrCat(root, "/lib64/", file));
    places.push_back(StrCat(root, "/lib/", file));
  }
  for (const std::string& root :
       {Variable("VIRTUAL_ENV"), Variable("CONDA_PREFIX"),
        Variable("HOME").empty() ? "" : Variable("HOME") + "/.local",
        std::string("/usr/local"), std::string("/usr")}) {
    if (root.empty()) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const std::string& wheel : library.wheels) {
        const auto found = Matches(StrCat(root, "/lib/python3*/", packages,
                                          "/nvidia/", wheel, "/lib/", file));
        places.insert(places.end(), found.begin(), found.end());
      }
    }
  }
  return places;
}

NvidiaLibrary CublasLtLibrary(int major) {
  return {.file = StrCat("libcublasLt.so.", major),
          .variable = "STOWAGE_CUBLASLT",
          .cuda = major,
          .wheels = {StrCat("cu", major), "cublas"}};
}

Result<SharedLibrary> OpenCublasLt(int major, const std::string& given) {
  const NvidiaLibrary library = CublasLtLibrary(major);
  return OpenSharedLibrary(
      library.file, PlacesOf(library, given),
      {.room = "gpu",
       .cure = "install cuBLAS (a CUDA toolkit, or NVIDIA's wheels in a Python "
               "environment), or name the file or its folder in "
               "STOWAGE_CUBLASLT"});
}

NvidiaLibrary NcclLibrary(int cuda) {
  return {.file = "libnccl.so.2",
          .variable = "STOWAGE_NCCL",
          .cuda = cuda,
          .wheels = {"nccl"}};
}

Result<SharedLibrary> OpenNccl(int cuda) {
  const NvidiaLibrary library = NcclLibrary(cuda);
  return OpenSharedLibrary(
      library.file, PlacesOf(library, ""),
      {.room = "gpu",
       .cure = "install NCCL (libnccl2, or NVIDIA's wheel in a Python "
               "environment), or name the file or its folder in STOWAGE_NCCL"});
}

}  // namespace stowage::gpu
