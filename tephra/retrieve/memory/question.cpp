// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/question.h"

#include <algorithm>
#include <unordered_set>

#include "tephra/retrieve/memory/stem.h"
#include "tephra/retrieve/words.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

// Words that ask for a conversation, point at one, or say when; none of them is what it was about.
constexpr std::string_view kAskingWords =
    "talk talked talking speak spoke spoken chat chatted chatting discuss discussed discussion "
    "conversation converse conversed convo dialogue session sessions say said saying tell told "
    "telling mention mentioned mentioning ask asked answer answered reply replied respond "
    "response message messages turn text texted write wrote note notes noted word words "
    "summarize summarise summary summarized recap recapitulate overview outline review describe "
    "description explain list listing enumerate show shown display give given get got getting pull "
    "pulled bring brought fetch find found look looked looking search see saw seen read reading "
    "repeat remind reminder reminded remember remembered recall recalled recollect recollection "
    "memory memories forget forgot forgotten know knew known think thought thinking wonder "
    "wondering "
    "want wanted need needed like liked love please thanks thank help hi hello hey ok okay yes "
    "yeah "
    "no sure well right actually really quite bit lot much many few several various "
    "thing things stuff topic topics subject subjects matter matters point points theme themes "
    "content contents contain detail details detailed everything anything something nothing all "
    "main key important interesting exact exactly precise precisely full whole entire complete "
    "transcript log record records history exchange exchanged cover covered covering go went gone "
    "going come came coming happen happened happening bring raise raised touch touched share "
    "shared "
    "sort sorts kind kinds type types way ways part parts piece "
    "time times date dates day days night week weeks weekend month months year years hour hours "
    "minute minutes moment period span range window today yesterday tonight morning afternoon "
    "evening noon earlier later early late recent recently latest last previous previously prior "
    "past before after ago back first second third next now then since until till between during "
    "begin beginning start starting started end ending ended finish current currently present "
    "sometime anytime somewhere anywhere around about roughly approximately exactly course "
    "calendar "
    "old new far long ever never always once again already still also else "
    "one ones other others another both either couple dozen half two three four five six seven "
    "eight nine ten eleven twelve twenty thirty fourth fifth sixth seventh eighth ninth tenth "
    "mind minds head tongue name namely go over through revisit revisiting relive refresh "
    "let make made use used using do done be have take took taken put keep kept try "
    "me you we us our ours your yours my mine able possible maybe perhaps guess curious "
    "good great nice fun wonderful lovely enjoy enjoyed "
    "according regarding concerning express expressed suggest suggested discusses mentions says "
    "question questions request requested session's number numbered meet met meeting call called "
    "catch caught fortnight quarter season spring autumn hm hmm uh um oh "
    "digest gist rundown roundup round refresher synopsis highlight highlights brief briefing "
    "briefly update abstract essence takeaway takeaways minutes agenda account report statement "
    "remark remarked comment commented quote quoted cite cited verbatim paraphrase condense "
    "condensed "
    "print printed output export dump copy send sent sending receive received type typed post "
    "posted "
    "banter debate debated dispute argue argued gab confer conferred correspond correspondence "
    "corresponded communicate communicated communication interact interacted interaction converse "
    "encounter appointment dialog parley chinwag natter address addressed "
    "noteworthy notable remarkable memorable significant relevant specific particular "
    "quick quickly short shortly simple simply basically literally honestly "
    "bug bugging cross crossed crossing strike struck pop popped ring rings bell stick stuck "
    "occur occurred arise arose arisen emerge emerged surface surfaced crop cropped "
    "retrace trace dig digging retrieve retrieved extract scroll skim browse rewind replay jog "
    "pass passed passing lead leading elapse elapsed begin began begun "
    "across amid upon within inside throughout toward towards via alongside "
    "anyone somebody someone everybody everyone nobody whatever whichever whenever "
    "try trying trouble struggle struggling fail failed seem seems appear appears suppose supposed "
    "believe hope hoping wish wished care interested wonder eager happy glad u ur im ive nr num "
    "favour favor line lines sentence sentences appreciate grateful oblige mood";

constexpr std::string_view kSaying =
    "say said says mention mentioned mentions tell told tells talk talked talks discuss discussed "
    "discusses share shared shares ask asked asks suggest suggested express expressed describe "
    "described explain explained write wrote bring brought respond responded reply replied state "
    "stated contribute contributed speak spoke";

// Words after which "that" points at a conversation.
constexpr std::string_view kPointedAt =
    "conversation conversations chat chats talk talks session sessions discussion discussions day "
    "time week month date period dialogue dialog occasion exchange meeting one ones";

std::unordered_set<std::string> word_set(std::string_view list, bool stems) {
  std::unordered_set<std::string> out;
  WordReader reader(list);
  for (Word word; reader.next(word);) {
    out.insert(stems ? stem(word.text) : std::string(word.text));
  }
  return out;
}

bool is_asking_word(std::string_view word) {
  static const std::unordered_set<std::string> words = word_set(kAskingWords, false);
  static const std::unordered_set<std::string> stems = word_set(kAskingWords, true);
  return words.contains(std::string(word)) || stems.contains(stem(word));
}

bool is_in(std::string_view list, std::string_view word) {
  size_t at = list.find(word);
  while (at != std::string_view::npos) {
    const bool begins = at == 0 || list[at - 1] == ' ';
    const size_t end = at + word.size();
    if (begins && (end == list.size() || list[end] == ' ')) return true;
    at = list.find(word, at + 1);
  }
  return false;
}

struct Piece {
  std::string text;
  size_t begin;
  bool in_time;  // belongs to a phrase of time
  uint64_t hash;
};

std::vector<Piece> pieces_of(std::string_view text, const std::vector<TimePhrase>& times) {
  std::vector<Piece> out;
  WordReader reader(text);
  for (Word word; reader.next(word);) {
    const bool in_time = std::any_of(times.begin(), times.end(), [&](const TimePhrase& t) {
      return word.begin < t.end && t.begin < word.end;
    });
    out.push_back({std::string(word.text), word.begin, in_time, word.hash});
  }
  return out;
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Whose words are asked for: the first named person, unless two are named together.
void find_speaker(const std::vector<Piece>& pieces, const std::vector<std::string>& speakers,
                  const std::string& asker, MemoryQuestion& q) {
  const auto named = [&](size_t i) -> const std::string* {
    if (i >= pieces.size()) return nullptr;
    for (const std::string& name : speakers) {
      const std::string lower = lower_ascii(name);
      const std::string first = lower.substr(0, lower.find(' '));
      if (pieces[i].text == lower || pieces[i].text == first) return &name;
    }
    return !asker.empty() && pieces[i].text == "i" ? &asker : nullptr;
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string* name = named(i);
    if (name == nullptr) continue;
    const auto joined = [&](size_t at) {
      return at < pieces.size() && (pieces[at].text == "and" || pieces[at].text == "with");
    };
    if (joined(i + 1) || (i > 0 && joined(i - 1))) return;
    q.speaker = *name;
    for (size_t at = i + 1; at < pieces.size() && at <= i + 3; ++at) {
      q.by_speaker = q.by_speaker || is_in(kSaying, pieces[at].text);
    }
    return;
  }
}

bool points_back(const std::vector<Piece>& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string& word = pieces[i].text;
    if (pieces[i].in_time) continue;
    if (word == "then" && (i == 0 || pieces[i - 1].text != "and")) return true;
    if ((word == "that" || word == "those" || word == "this" || word == "same" ||
         word == "these") &&
        i + 1 < pieces.size() && is_in(kPointedAt, pieces[i + 1].text)) {
      return true;
    }
  }
  return false;
}

bool is_speaker(const std::vector<std::string>& speakers, const std::string& word) {
  return std::any_of(speakers.begin(), speakers.end(), [&](const std::string& name) {
    const std::string lower = lower_ascii(name);
    return lower == word || lower.substr(0, lower.find(' ')) == word;
  });
}

}  // namespace

namespace {

// Whether a word asks by its place rather than by what it means: "walk me through it", "please
// abridge our talk", "a pastiche of what we said".
bool asks_by_place(const std::vector<Piece>& pieces, size_t i) {
  const auto is = [&](size_t at, std::string_view words) {
    return at < pieces.size() && is_in(words, pieces[at].text);
  };
  const auto of_talk = [&](size_t at) {
    return at < pieces.size() && (pieces[at].in_time || is_asking_word(pieces[at].text));
  };
  if (is(i + 1, "me us")) return true;
  if (i == 0 && is(i + 1, "through every all each our what that it everything")) return true;
  if (i > 0 && is(i - 1, "please kindly you u")) return true;
  if (i > 1 && is(i - 1, "s us") && is(i - 2, "let")) return true;
  if (i > 1 && is(i - 1, "to") &&
      is(i - 2, "like want need love wish able try trying hope hoping")) {
    return true;
  }
  if (!is(i + 1, "of on from for to")) return false;
  if (is(i + 2, "it what everything all")) return true;
  return is(i + 2, "that this those the our my your")
             ? of_talk(i + 3) || i + 3 >= pieces.size()
             : i + 2 < pieces.size() && pieces[i + 2].in_time;
}

// The words that are the subject: not asking, not naming people, not in a phrase of time.
void find_subject(const std::vector<Piece>& pieces, const std::vector<std::string>& speakers,
                  MemoryQuestion& q) {
  q.words.clear();
  q.terms.clear();
  bool after_about = false;
  bool named = false;
  bool words = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool subject = !piece.in_time && !is_stop_word(piece.hash) && piece.text.size() > 1 &&
                         !is_asking_word(piece.text) && !is_speaker(speakers, piece.text) &&
                         (after_about || !asks_by_place(pieces, i));
    const bool digits = piece.text.find_first_not_of("0123456789") == std::string::npos;
    if (subject) {
      std::string term = stem(piece.text);
      named = named || after_about;
      words = words || !digits;
      if (std::find(q.terms.begin(), q.terms.end(), term) == q.terms.end()) {
        q.terms.push_back(std::move(term));
        q.words.push_back(piece.text);
      }
    }
    after_about = after_about || is_in("about regarding concerning", piece.text);
  }
  if (!words) {  // numbers alone are no subject
    q.words.clear();
    q.terms.clear();
  }
  q.certain = named || q.terms.size() >= 3 || (!q.speaker.empty() && !q.terms.empty());
}

}  // namespace

MemoryQuestion read_memory_question(std::string_view asked,
                                    const std::vector<std::string>& speakers,
                                    const std::string& asker) {
  const std::string text = lossy_utf8(asked);
  MemoryQuestion q;
  q.times = find_time_phrases(text);
  std::vector<Piece> pieces = pieces_of(text, q.times);
  find_speaker(pieces, speakers, asker, q);
  q.refers_back = points_back(pieces);
  find_subject(pieces, speakers, q);
  // "over the weekend" belongs to the subject when there is one.
  const auto is_weak = [](const TimePhrase& t) { return t.first.weak && !t.last; };
  if (!q.terms.empty() && std::any_of(q.times.begin(), q.times.end(), is_weak)) {
    std::erase_if(q.times, is_weak);
    find_subject(pieces_of(text, q.times), speakers, q);
  }
  return q;
}

bool speaks_of_talk(std::string_view asked) {
  const std::string text = lossy_utf8(asked);
  WordReader reader(text);
  for (Word word; reader.next(word);) {
    if (is_in(kSaying, word.text) ||
        is_in(kPointedAt.substr(0, kPointedAt.find(" day")), word.text) ||
        is_in(
            "talking speaking spoken chatted chatting conversed discussing saying remember recall "
            "revisit notes went covered",
            word.text)) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> search_terms(std::string_view asked) {
  const std::string text = lossy_utf8(asked);
  std::vector<std::string> out;
  WordReader reader(text);
  for (Word word; reader.next(word);) {
    std::string term = stem(word.text);
    if (is_stop_word(word.hash) || std::find(out.begin(), out.end(), term) != out.end()) continue;
    out.push_back(std::move(term));
  }
  return out;
}

}  // namespace tephra
