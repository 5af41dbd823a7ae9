// By libjpeg, of which libjpeg-turbo is one.

#include <csetjmp>
#include <cstdio>
// After <cstdio>, whose types it takes for granted.
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "formats/image_decoders.h"

namespace stowage::formats {
namespace {

// libjpeg leaves by jumping, so what a jump may skip is made before and has no
// destructor in between. A warning, as of a file that ends early, is an error.
struct Decoder {
  jpeg_error_mgr errors = {};
  jpeg_decompress_struct info = {};
  std::jmp_buf escape = {};
  std::array<char, JMSG_LENGTH_MAX> message = {};
};

[[noreturn]] void Escape(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->message.data());
  std::longjmp(decoder->escape, 1);
}

void OnMessage(j_common_ptr info, int level) {
  if (level < 0) Escape(info);
}

// Reads the header. Whether it went well.
bool Begin(std::string_view bytes, int64_t channels, Decoder* decoder) {
  jpeg_decompress_struct* const info = &decoder->info;
  if (setjmp(decoder->escape) != 0) return false;
  jpeg_create_decompress(info);
  info->client_data = decoder;
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(info, TRUE);
  const bool has_ink =
      info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  const bool stays_grey =
      channels == 1 && info->jpeg_color_space == JCS_GRAYSCALE;
  info->out_color_space = has_ink      ? JCS_CMYK
                          : stays_grey ? JCS_GRAYSCALE
                                       : JCS_RGB;
  info->dct_method = JDCT_ISLOW;
  return true;
}

// Colours of inks, which JPEG files hold as what is left without them, in red, green and
// blue, or in grey, as Pillow's convert has them (libImaging/Convert.c); in place.
void MixInks(uint8_t* row, const Image& image) {
  for (int64_t x = 0; x < image.width; ++x) {
    const uint8_t* const ink = row + 4 * x;
    const int white = ink[3];
    std::array<uint8_t, 3> rgb;
    for (size_t i = 0; i < 3; ++i) {
      const int product = (255 - ink[i]) * white + 128;
      const int taken = ((product >> 8) + product) >> 8;
      rgb[i] = static_cast<uint8_t>(std::max(white - taken, 0));
    }
    if (image.channels == 1) {
      row[x] = LumaOf(rgb.data());
    } else {
      std::ranges::copy(rgb, row + 3 * x);
    }
  }
}

bool ReadRows(uint8_t* row, Image* image, Decoder* decoder) {
  jpeg_decompress_struct* const info = &decoder->info;
  if (setjmp(decoder->escape) != 0) return false;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    const int64_t y = info->output_scanline;
    jpeg_read_scanlines(info, &row, 1);
    if (info->out_color_space == JCS_CMYK) MixInks(row, *image);
    if (info->out_color_space == JCS_RGB && image->channels == 1) {
      // The file's own luma is not that of the colours once they are rounded.
      for (int64_t x = 0; x < image->width; ++x) row[x] = LumaOf(row + 3 * x);
    }
    StoreRow(row, y, image);
  }
  jpeg_finish_decompress(info);
  return true;
}

}  // namespace

Result<Image> DecodeJpeg(std::string_view bytes, int64_t channels,
                         std::string_view origin) {
  if (bytes.size() > std::numeric_limits<uint32_t>::max()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[jpeg] ", Quoted(origin), " has ", bytes.size(),
                        " bytes; at most 4294967295 are read")};
  }
  Decoder decoder;
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.info.client_data = &decoder;
  decoder.errors.error_exit = Escape;
  decoder.errors.emit_message = OnMessage;
  const auto decode = [&]() -> Result<Image> {
    const auto fail = [&] {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[jpeg] ", Quoted(origin), ", of ", bytes.size(),
                 " bytes, ends early or is damaged: ", decoder.message.data())};
    };
    if (!Begin(bytes, channels, &decoder)) return fail();
    STOWAGE_ASSIGN_OR_RETURN(Image image,
                             MakeImage(channels, decoder.info.image_height,
                                       decoder.info.image_width, origin));
    std::vector<uint8_t> row(static_cast<size_t>(4 * image.width));
    if (!ReadRows(row.data(), &image, &decoder)) return fail();
    return image;
  };
  Result<Image> image = decode();
  jpeg_destroy_decompress(&decoder.info);
  return image;
}

}  // namespace stowage::formats
