# Writes runner/text/character_classes.inc: for every code point, what the reference implementation takes it for.
#
#   pip install tokenizers==0.23.3
#   python tests/text/character_classes.py >runner/text/character_classes.inc
#
# The reference uses tables of several versions of Unicode, so each class is found by calling it.
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

CLEAN, MARKS, LOWER = (
    normalizers.BertNormalizer(clean_text=i == 0, handle_chinese_chars=False, strip_accents=i == 1, lowercase=i == 2)
    for i in range(3))
NFD = normalizers.NFD()
BERT = pre_tokenizers.BertPreTokenizer()
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
WORDS = Tokenizer(models.WordLevel({"z": 0, "?": 1}, unk_token="?"))
WORDS.add_tokens([AddedToken("z", single_word=True)])

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def names_of(code):
    c = chr(code)
    names = []
    if len(BYTE_LEVEL.pre_tokenize_str("a" + c)) == 1:
        names.append("kLetter")
    elif len(BYTE_LEVEL.pre_tokenize_str("1" + c)) == 1:
        names.append("kNumber")
    elif len(BYTE_LEVEL.pre_tokenize_str("?" + c)) == 2:
        names.append("kSpace")
    if len(BERT.pre_tokenize_str("a" + c + "b")) == 3:
        names.append("kPunctuation")
    if CLEAN.normalize_str("a" + c) == "a":
        names.append("kControl")
    if MARKS.normalize_str("a" + c) == "a":
        names.append("kMark")
    if NFD.normalize_str("a" + c + "\u0334") == "a\u0334" + c or NFD.normalize_str("a\u0345" + c) == "a" + c + "\u0345":
        names.append("kSorted")
    if WORDS.encode("z" + c).tokens != ["z", "?"]:
        names.append("kWord")
    return names


ranges = []  # first, last, names
for code in CODES:
    names = names_of(code)
    if ranges and ranges[-1][1] + 1 == code and ranges[-1][2] == names:
        ranges[-1][1] = code
    elif names:
        ranges.append([code, code, names])

LETTERS = {"kLetter": "L", "kNumber": "N", "kSpace": "S", "kPunctuation": "P", "kControl": "C", "kMark": "M",
           "kSorted": "O", "kWord": "W"}
print("// Made by tests/text/character_classes.py. Code points that are not listed have no class.")
line = ""
for first, last, names in ranges:
    entry = f"{{0x{first:X}, 0x{last:X}, {' | '.join(LETTERS[name] for name in names)}}},"
    if len(line) + len(entry) + 1 > 120:
        print(line)
        line = ""
    line += (" " if line else "") + entry
print(line)
