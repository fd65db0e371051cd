// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/thrift_writer.h"

namespace tephra {
namespace {

uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

}  // namespace

void ThriftWriter::varint(uint64_t value) {
  while (value >= 0x80) {
    out_ += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out_ += static_cast<char>(value);
}

void ThriftWriter::field(int id, int type) {
  const int step = id - last_.back();
  if (step > 0 && step < 16) {
    out_ += static_cast<char>(step << 4 | type);
  } else {
    out_ += static_cast<char>(type);
    varint(zigzag(id));
  }
  last_.back() = id;
}

void ThriftWriter::integer(int id, int64_t value, int type) {
  field(id, type);
  varint(zigzag(value));
}

void ThriftWriter::boolean(int id, bool value) {
  field(id, value ? ThriftReader::yes : ThriftReader::no);
}

void ThriftWriter::text(int id, std::string_view value) {
  field(id, ThriftReader::binary);
  text_element(value);
}

void ThriftWriter::begin_struct(int id) {
  field(id, ThriftReader::structure);
  begin_struct();
}

void ThriftWriter::begin_struct() { last_.push_back(0); }

void ThriftWriter::end_struct() {
  out_ += '\0';
  last_.pop_back();
}

void ThriftWriter::begin_list(int id, int type, size_t size) {
  field(id, ThriftReader::list);
  if (size < 15) {
    out_ += static_cast<char>(size << 4 | static_cast<size_t>(type));
  } else {
    out_ += static_cast<char>(0xf0 | type);
    varint(size);
  }
}

void ThriftWriter::integer_element(int64_t value) { varint(zigzag(value)); }

void ThriftWriter::text_element(std::string_view value) {
  varint(value.size());
  out_ += value;
}

}  // namespace tephra
