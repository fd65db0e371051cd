// SPDX-License-Identifier: Apache-2.0
// Crawled pages: what of HTML is text, in which encoding, and that no page takes long or crashes.
#include <gtest/gtest.h>

#include <random>

#include "tephra/base/clock.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/formats/charset.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/html_text.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::string text_of(std::string_view page) { return html_text(page).text; }

TEST(HtmlText, KeepsWhatIsReadAndALineForEachBlock) {
  const HtmlText page = html_text(
      "<!doctype html><html><head><title> A &amp;\n B </title><style>p{color:red}</style>"
      "<script>if (a < b) document.write('<p>no</p>')</script></head><body class=\"x>y\">"
      "<nav><ul><li>Home</li><li>About</li></ul></nav><h1>The  head\n line</h1>"
      "<p>First <b>bold</b>&nbsp;word&eacute;s &lt;tag&gt; &#8364;&#x20AC;&#151;<br/>second line"
      "<ul><li>one<li>two</ul><table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>"
      "<!-- <p>hidden</p> --><footer>Imprint</footer>tail & end</body></html>");
  EXPECT_EQ(page.title, "A & B");
  EXPECT_EQ(
      page.text,
      "The head line\nFirst bold wordés <tag> €€—\nsecond line\none\ntwo\na b\nc\ntail & end");
}

TEST(HtmlText, ReadsPagesThatAreNotAsTheyShouldBe) {
  EXPECT_EQ(text_of("no tags at all & more &unknown; &"), "no tags at all & more &unknown; &");
  EXPECT_EQ(text_of("a < b and c<3 <"), "a < b and c<3 <");
  EXPECT_EQ(text_of("<head><title>t</title><p>no body tag"), "no body tag");
  EXPECT_EQ(text_of("<div><nav>menu</div>after the unclosed menu"), "after the unclosed menu");
  EXPECT_EQ(text_of("x<script>never ends <p>y"), "x");
  EXPECT_EQ(text_of("x<!-- never ends <p>y"), "x");
  EXPECT_EQ(text_of("<p title='a>b'>quoted</p><P>CAPITALS</P >"), "quoted\nCAPITALS");
  EXPECT_EQ(text_of("</p></div>only ends</nav>"), "only ends");
  EXPECT_EQ(text_of("<a href=x'y>odd</a> quotes"), "odd quotes");
  EXPECT_EQ(text_of("&#0;&#xD800;&#99999999;&#;&#x;"), "\ufffd\ufffd\ufffd&#;&#x;");
  EXPECT_EQ(text_of("<svg><title>pic</title></svg>x"), "x");
  EXPECT_EQ(html_text("<svg><title>pic</title></svg><title>page</title>").title, "page");
  EXPECT_EQ(text_of("<pre>a\n  b</pre>\nc"), "a\nb\nc");
  EXPECT_EQ(text_of(""), "");
}

TEST(HtmlText, TakesTimeAndMemoryLinearInThePage) {
  for (const char* part :
       {"<div>", "</div>", "<nav>", "<", "&", "&#", "</", "<!--", "<a b='", "<p/", "<script>",
        "<x y=\"z\">", "&amp", "<title>", "</title>", "<pre>\n", "\xc3\xa9"}) {
    std::string page;
    while (page.size() < 1'000'000) page += part;
    HtmlText made;
    const double seconds = seconds_of([&] { made = html_text(page); });
    EXPECT_LT(seconds, 10) << part;  // a quadratic pass would take minutes
    EXPECT_LE(made.text.size(), page.size()) << part;
  }
}

TEST(HtmlText, IsValidUtf8ForAnyBytes) {
  std::mt19937 random(4);
  const std::string_view parts[] = {"<",        ">",      "&",    ";",   "#",    "x", "'",
                                    "\"",       "/",      "p",    "\n",  "div ", "=", "nav>",
                                    "\xc3\xa9", "title>", "<!--", "-->", "9"};
  for (int round = 0; round < 3000; ++round) {
    std::string page;
    for (uint32_t i = 0; i < random() % 60; ++i) page += parts[random() % std::size(parts)];
    const HtmlText made = html_text(page_as_utf8(page, ""));
    ASSERT_TRUE(is_utf8(made.text) && is_utf8(made.title)) << page;
  }
}

TEST(Charset, IsThePagesOwn) {
  EXPECT_EQ(page_as_utf8("caf\xe9 \x80", ""), "café €");  // Windows-1252
  EXPECT_EQ(page_as_utf8("caf\xe9", "ISO-8859-1"), "café");
  EXPECT_EQ(page_as_utf8("\xcf\xf0\xe8", "windows-1251"), "При");
  EXPECT_EQ(page_as_utf8("<meta charset=\"windows-1251\">\xcf", ""),
            "<meta charset=\"windows-1251\">П");
  EXPECT_EQ(page_as_utf8("\x82\xa0", "Shift_JIS"), "あ");
  EXPECT_EQ(page_as_utf8("größe", "iso-8859-1"), "größe");  // what is UTF-8 is UTF-8
  EXPECT_EQ(page_as_utf8("a\xff"
                         "b",
                         "utf-8"),
            "a\ufffd"
            "b");
  EXPECT_EQ(page_as_utf8("\xe9", "no-such-encoding"), "é");
  EXPECT_EQ(page_as_utf8("\x81\x9f", ""), "\u0081Ÿ");  // as browsers read it
  // What iconv knows and the web does not is not tried; then the page's own word counts.
  for (const char* name : {"ISO-2022-JP-3", "INTERNAL", "UTF-7", "EBCDIC-US"}) {
    EXPECT_EQ(page_as_utf8("\xe9", name), "é") << name;
    EXPECT_EQ(page_as_utf8("<meta charset=koi8-r>\xf0", name), "<meta charset=koi8-r>П") << name;
  }
  // UTF-16, by a mark, a header or zeros in the first tag; never by a tag that was read as ASCII.
  const std::string little("\xff\xfe<\0p\0>\0\xe9\0=\xd8\x00\xde", 14);
  const std::string big("\xfe\xff\0<\0p\0>\0\xe9\xd8=\xde\x00", 14);
  EXPECT_EQ(page_as_utf8(little, ""), "<p>é😀");
  EXPECT_EQ(page_as_utf8(big, "utf-8"), "<p>é😀");
  EXPECT_EQ(page_as_utf8(little.substr(2), ""), "<p>é😀");
  EXPECT_EQ(page_as_utf8(big.substr(2), ""), "<p>é😀");
  EXPECT_EQ(page_as_utf8(std::string_view("h\0i\0", 4), "UTF-16"), "hi");
  EXPECT_EQ(page_as_utf8(std::string_view("\0h\0i", 4), "utf-16be"), "hi");
  EXPECT_EQ(page_as_utf8(std::string_view("h\0i\0\0\xd8x\0y", 9), "utf-16"), "hi\ufffdx\ufffd");
  EXPECT_EQ(page_as_utf8("<meta charset=utf-16>gr\xc3\xb6\xc3\x9f", ""),
            "<meta charset=utf-16>größ");
  // A mark counts more than what a header says, and goes.
  EXPECT_EQ(page_as_utf8("\xef\xbb\xbfgr\xc3\xb6\xc3\x9f", "iso-8859-1"), "größ");
  EXPECT_EQ(page_as_utf8("\x1b$B$\"\x1b(B!", "ISO-2022-JP"), "あ!");
  EXPECT_EQ(page_as_utf8("<meta charset=iso-2022-jp>\x1b$B$\"\x1b(B", ""),
            "<meta charset=iso-2022-jp>あ");
  // Only a <meta> names the page's encoding; the first that does.
  EXPECT_EQ(page_as_utf8("<script charset=windows-1251></script><META NAME=x><MeTa "
                         "content='text/html; charset=KOI8-R'>\xf0",
                         ""),
            "<script charset=windows-1251></script><META NAME=x><MeTa "
            "content='text/html; charset=KOI8-R'>П");
  EXPECT_EQ(page_as_utf8("\xa4\xa4", "big5"), "中");
  EXPECT_EQ(page_as_utf8("\xb0\xa1", "EUC-KR"), "가");
  EXPECT_EQ(page_as_utf8("\xa4\xa2", "x-euc-jp"), "あ");
  EXPECT_EQ(page_as_utf8("\xa1", "windows-874"), "ก");
  EXPECT_EQ(page_as_utf8("\x81\x30\x81\x30", "gb2312"), "\u0080");
  EXPECT_EQ(find_charset("text/html; Charset = 'utf-8'"), "utf-8");
  EXPECT_EQ(find_charset("text/html"), "");
}

std::string warc_record(const std::string& type, const std::string& body) {
  return "WARC/1.0\r\nWARC-Type: " + type +
         "\r\nWARC-Target-URI: http://a.b/\r\nWARC-Date: 2024-01-02T03:04:05Z\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body + "\r\n\r\n";
}

std::string http(const std::string& headers, const std::string& body,
                 const char* status = "200 OK") {
  return std::string("HTTP/1.1 ") + status + "\r\n" + headers + "\r\n" + body;
}

std::string all_lines(const Path& path) {
  const std::unique_ptr<ByteReader> reader = open_documents(path);
  std::string all, part(1000, '\0');
  while (const size_t got = reader->read(part)) all.append(part, 0, got);
  return all;
}

TEST(Warc, GivesTheTextsOfHtmlResponses) {
  const Scratch scratch;
  const std::string html = "Content-Type: text/html; charset=windows-1251\r\n";
  const std::vector<std::string> records = {
      warc_record("warcinfo", "software: x"),
      warc_record("request", "GET / HTTP/1.1\r\n\r\n"),
      warc_record("response", http(html, "<title>T</title><p>\xcf\xf0\xe8")),
      warc_record("response", http("Content-Type: image/png\r\n", std::string(300000, 'P'))),
      warc_record("response", http("content-type: TEXT/HTML\r\nTransfer-Encoding: chunked\r\n",
                                   "5\r\n<p>on\r\n3;x=y\r\ne a\r\n0\r\n\r\n")),
      warc_record("response", http(html, "<p>gone", "404 Not Found")),
      warc_record("response", http("Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n",
                                   "<p>undone already")),
      warc_record("response", "garbage"),
      warc_record("response", http("Content-Type: text/html\r\nContent-Encoding: br\r\n", "x")),
      warc_record("response", http(html, "<script>no text</script>")),
      warc_record("revisit", http(html, "")),
      warc_record("made up", "x")};
  const std::string tail = ",\"url\":\"http://a.b/\",\"date\":\"2024-01-02T03:04:05Z\"}\n";
  const std::string want = "{\"text\":\"При\",\"title\":\"T\"" + tail + "{\"text\":\"one a\"" +
                           tail + "{\"text\":\"undone already\"" + tail;
  std::string plain, packed;
  for (const std::string& record : records) {
    plain += record;
    packed += gzipped(record);
  }
  write_file(scratch / "a.warc", plain);
  write_file(scratch / "b.warc.gz", packed);
  EXPECT_EQ(all_lines(scratch / "a.warc"), want);
  EXPECT_EQ(all_lines(scratch / "b.warc.gz"), want);
  const std::unique_ptr<ByteReader> reader = open_documents(scratch / "b.warc.gz");
  std::string part(1000, '\0');
  while (reader->read(part) > 0) {
  }
  EXPECT_EQ(reader->left_out(), (std::map<std::string, int64_t>{{"compressed", 1},
                                                                {"no_html", 1},
                                                                {"no_http", 1},
                                                                {"no_text", 1},
                                                                {"other_record", 1},
                                                                {"revisit", 1},
                                                                {"status", 1}}));
  const auto files = corpus_files(std::vector<std::string>{scratch.path().string()});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].name, "b");
}

TEST(Warc, UndoesTheCompressionOfBodies) {
  const Scratch scratch;
  const std::string text = "<p>unpacked text, unpacked text, unpacked text";
  const std::string brotli(
      "\x1b\x2d\x00\xf8\x1d\xa7\xc5\x9a\x9f\x39\x5d\xb3\xf0\xc0\xd1\x29\x90\xba"
      "\xf6\x29\x73\xc3\x53\xaa\xd0\x53\x02\xcc\xc4\xd8\x48\xe5\x7d\x00",
      34);
  const std::string zlib(
      "\x78\x9c\xb3\x29\xb0\x2b\xcd\x2b\x48\x4c\xce\x4e\x4d\x51\x28\x49\xad\x28"
      "\xd1\x51\xc0\xc7\x05\x00\x8d\xd5\x11\x13",
      28);
  const std::string raw(
      "\xb3\x29\xb0\x2b\xcd\x2b\x48\x4c\xce\x4e\x4d\x51\x28\x49\xad\x28\xd1\x51"
      "\xc0\xc7\x05\x00",
      22);
  const std::string members = gzipped(text.substr(0, 20)) + gzipped(text.substr(20));
  const std::string frames = zstd_compressed(text.substr(0, 20)) + zstd_compressed(text.substr(20));
  std::string crawl;
  const auto add = [&](const std::string& coding, const std::string& body) {
    crawl += warc_record(
        "response", http("Content-Type: text/html\r\nContent-Encoding: " + coding + "\r\n", body));
  };
  const std::vector<std::pair<std::string, std::string>> good = {{"gzip", gzipped(text)},
                                                                 {"X-GZIP", gzipped(text)},
                                                                 {"br", brotli},
                                                                 {"deflate", zlib},
                                                                 {"deflate", raw},
                                                                 {"zstd", zstd_compressed(text)},
                                                                 {"br, gzip", gzipped(brotli)},
                                                                 {"gzip", members},
                                                                 {"zstd", frames},
                                                                 {"identity", text},
                                                                 {"gzip", text}};  // undone already
  for (const auto& [coding, body] : good) add(coding, body);
  std::string bomb(std::string(80 << 20, 'x'));
  for (const std::string& body : {gzipped(text).substr(0, 30), gzipped(bomb), std::string()}) {
    add("gzip", body);
  }
  add("br", brotli.substr(0, 12));
  add("zstd", zstd_compressed(text).substr(0, 12));
  add("zstd", zstd_compressed(bomb));
  add("compress", "\x1f\x9d");
  add("gzip,gzip,gzip,gzip,gzip", gzipped(text));
  write_file(scratch / "a.warc", crawl);
  const std::unique_ptr<ByteReader> reader = open_documents(scratch / "a.warc");
  std::string all, part(1000, '\0');
  while (const size_t got = reader->read(part)) all.append(part, 0, got);
  const std::vector<std::string_view> lines = split(all, '\n');
  ASSERT_EQ(lines.size(), good.size() + 1);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with("{\"text\":\"unpacked text, unpacked text, unpacked text\""))
        << good[i].first << lines[i];
  }
  EXPECT_EQ(reader->left_out(),
            (std::map<std::string, int64_t>{{"compressed", 6}, {"too_long", 2}}));
}

TEST(Warc, KeepsPagesThatWereCutByTheCrawlAndSaysSo) {
  const Scratch scratch;
  std::string page = "<p>first half";
  for (int i = 0; i < 40000; ++i) page += " " + std::to_string(i * 7919);
  const std::string chunked = "d\r\n<p>first half\r\n40\r\n and some more";
  const auto most_of = [](const std::string& body) { return body.substr(0, body.size() / 10 * 9); };
  const std::vector<std::pair<std::string, std::string>> cut_bodies = {
      {"", "<p>first half"},
      {"Transfer-Encoding: chunked\r\n", chunked},
      {"Content-Encoding: gzip\r\n", most_of(gzipped(page))},
      {"Content-Encoding: zstd\r\n", most_of(zstd_compressed(page))}};
  for (const auto& [head, body] : cut_bodies) {
    std::string cut = warc_record("response", http("Content-Type: text/html\r\n" + head, body));
    cut.replace(cut.find("WARC-Date"), 0, "X-Long: one\r\n\ttwo\r\nWARC-Truncated: length\r\n");
    write_file(scratch / "a.warc", cut);
    const std::string line = all_lines(scratch / "a.warc");
    EXPECT_TRUE(line.starts_with("{\"text\":\"first half") &&
                line.ends_with(",\"truncated\":\"length\"}\n"))
        << head << line;
  }
}

TEST(Warc, RefusesWhatIsCutOffOrLies) {
  const Scratch scratch;
  const std::string whole =
      warc_record("response", http("Content-Type: text/html\r\n", "<p>" + std::string(500, 'x')));
  for (size_t size = 1; size + 4 < whole.size(); size += 13) {
    write_file(scratch / "a.warc", whole.substr(0, size));
    EXPECT_EQ(error_of([&] { all_lines(scratch / "a.warc"); }).fault(), Fault::data) << size;
  }
  for (const char* length : {"-1", "99999999999999999999", "12x", "", "100000000000"}) {
    write_file(scratch / "a.warc",
               std::string("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: ") + length +
                   "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    EXPECT_EQ(error_of([&] { all_lines(scratch / "a.warc"); }).fault(), Fault::data) << length;
  }
}

}  // namespace
}  // namespace tephra
