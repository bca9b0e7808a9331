-- A made-up shop in a database that has sql/schema.sql: the same scale makes the same rows, everywhere.
--
--     psql -X -v scale=50000 -f sql/seed.sql "$DATABASE_URL"        scale: products, default 50 000
--
-- About scale / 50 categories, at least 20. Category sizes follow Zipf's law, as in a shop: the largest has a
-- tenth of all products, most have a few, and ids say nothing about size. Every tenth of the products speaks
-- another language, so names and descriptions are in Latin, Greek, Cyrillic, Arabic, Hebrew, Devanagari, Thai,
-- Han, Kana and Hangul. Chance is md5 of the row's number; no random(), no clock.
\set ON_ERROR_STOP on
\if :{?scale}
\else
    \set scale 50000
\endif
SET client_min_messages = warning;
-- The text below is UTF-8, whatever the locale of the terminal.
SET client_encoding = 'UTF8';

BEGIN;
-- Dates and numbers read the same in every locale.
SET LOCAL timezone = 'UTC';
SET LOCAL jit = off;

SELECT set_config('seed.scale', :'scale', true) \g /dev/null

DO $$
BEGIN
    IF to_regclass('categories') IS NULL OR to_regclass('products') IS NULL THEN
        RAISE EXCEPTION 'database "%" has no catalog schema', current_database()
            USING HINT = 'Run sql/schema.sql first.';
    END IF;
    IF EXISTS (SELECT FROM categories) OR EXISTS (SELECT FROM products) THEN
        RAISE EXCEPTION 'database "%" already holds a catalog', current_database()
            USING HINT = 'Run TRUNCATE categories, products; first.';
    END IF;
    IF current_setting('seed.scale') !~ '^[1-9][0-9]{0,7}$' THEN
        RAISE EXCEPTION 'scale "%" is not a number of products from 1 to 99999999',
            current_setting('seed.scale');
    END IF;
END
$$;

-- 32 bits of chance per row and purpose.
CREATE FUNCTION pg_temp.chance(row_number bigint, purpose text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('x' || substr(md5(purpose || row_number), 1, 8))::bit(32)::bigint;

CREATE TEMPORARY TABLE shape ON COMMIT DROP AS
SELECT total, roots, middles, total - roots - middles AS leaves
  FROM (SELECT greatest(20, :scale / 50) AS total) AS t,
       LATERAL (SELECT least(24, greatest(2, total / 100)) AS roots) AS r,
       LATERAL (SELECT greatest(roots * 2, total * 9 / 100) AS middles) AS m;

CREATE TEMPORARY TABLE words (
    language integer PRIMARY KEY,
    adjectives text[],
    nouns text[],
    sentences text[]
) ON COMMIT DROP;

INSERT INTO words VALUES
(0, '{Quiet,Sturdy,Featherlight,Everyday,Handmade,Foldable,Weatherproof,Midnight}',
    '{Kettle,Backpack,Desk Lamp,Notebook,Garden Chair,Raincoat,Water Bottle,Bicycle Bell}',
    '{"Made to be repaired rather than replaced.","Tested for ten thousand hours in a house with two dogs and three children.","The box contains everything you need, and nothing you will throw away.","Ships flat; put together in five minutes without tools.","Customers say it is \"smaller than it looks\" & worth every cent.","Weighs less than a paperback and lasts considerably longer."}'),
(1, '{Leiser,Stabiler,Großer,Handgefertigter,Faltbarer,Wetterfester,Süßer,Übergroßer}',
    '{Wasserkocher,Rucksack,Schreibtisch,Füller,Gartenstuhl,Regenschirm,Schlüsselanhänger,Kühlschrank}',
    '{"Gefertigt in einer kleinen Werkstatt im Süden.","Größe und Gewicht sind auf das Nötigste beschränkt.","Lässt sich ohne Werkzeug zerlegen und überall reparieren.","Zehn Jahre Gewähr – auch auf die Scharniere."}'),
(2, '{"Léger","Pliable","Étanche","Fait main","Éternel","Très grand","Naïf","Œuvré"}',
    '{Théière,"Sac à dos",Crêpière,Carnet,"Chaise de jardin",Imperméable,Gourde,"Clé à molette"}',
    '{"Fabriqué à la main dans un atelier près de la mer.","On l’achète pour sa beauté, on le garde pour sa solidité.","Livré avec une notice qui tient sur une page.","Garanti dix ans, pièces et main-d’œuvre."}'),
(3, '{Тихий,Лёгкий,Прочный,Складной,Большой,Зимний,Ручной,Вечный}',
    '{чайник,рюкзак,фонарь,блокнот,стул,плащ,самовар,ящик}',
    '{"Сделано, чтобы служить долго и чиниться легко.","Испытано зимой за полярным кругом.","В коробке есть всё необходимое.","Собирается за пять минут без инструментов."}'),
(4, '{Ήσυχος,Ελαφρύς,Ανθεκτικός,Μεγάλος,Χειροποίητος,Αδιάβροχος,Μικρός,Αιώνιος}',
    '{βραστήρας,σάκος,φακός,πίνακας,χάρτης,καφετιέρας,μύλος,καθρέφτης}',
    '{"Φτιαγμένο για να επισκευάζεται.","Δοκιμασμένο στον ήλιο και στη θάλασσα.","Το κουτί περιέχει όλα όσα χρειάζεστε.","Εγγύηση δέκα ετών."}'),
(5, '{静音,轻便,结实,手工,折叠,防水,大号,复古}',
    '{水壶,背包,台灯,笔记本,花园椅,雨衣,保温杯,自行车铃}',
    '{"为维修而设计,而不是为更换而设计。","包装内附有您所需的一切。","五分钟即可组装完成,无需工具。","经过一万小时的耐久测试。"}'),
(6, '{静かな,軽い,丈夫な,手作りの,折りたたみ,防水の,大きな,真夜中の}',
    '{やかん,リュックサック,ランプ,ノート,ガーデンチェア,レインコート,水筒,自転車ベル}',
    '{"修理しながら長く使えるように作られています。","道具なしで五分で組み立てられます。","箱の中に必要なものがすべて入っています。","一万時間の耐久試験に合格しました。"}'),
(7, '{조용한,가벼운,튼튼한,수제,접이식,방수,커다란,한밤의}',
    '{주전자,배낭,램프,공책,정원의자,우비,물병,자전거벨}',
    '{"고쳐 쓸 수 있도록 만들었습니다.","도구 없이 오 분이면 조립됩니다.","상자 안에 필요한 모든 것이 들어 있습니다.","만 시간의 내구성 시험을 통과했습니다."}'),
(8, '{هادئ,خفيف,متين,يدوي,كبير,مقاوم,صغير,دائم}',
    '{إبريق,مصباح,دفتر,كرسي,معطف,جرس,صندوق,مفتاح}',
    '{"صُنع ليُصلَح لا ليُستبدل.","تحتوي العلبة على كل ما تحتاجه.","يُركَّب في خمس دقائق بلا أدوات.","ضمان لمدة عشر سنوات."}'),
(9, '{शांत,हल्का,मज़बूत,"שקט","עמיד",เบา,ทนทาน,"☕ Café"}',
    '{केतली,बस्ता,दीपक,"קומקום","מחברת",กาน้ำ,กระเป๋า,"Tasse 🫖"}',
    '{"मरम्मत के लिए बनाया गया, बदलने के लिए नहीं।","הקופסה מכילה את כל מה שצריך.","ประกอบได้ในห้านาทีโดยไม่ต้องใช้เครื่องมือ","Emoji, accents (é, ñ, ø) and \\backslashes survive the trip. 👩‍🔧"}');

CREATE TEMPORARY TABLE departments ON COMMIT DROP AS
SELECT n, name
  FROM unnest('{Kitchen & Table,Werkzeug & Bücher,Maison et Jardin,Электроника,Βιβλία,家居用品,文房具,생활용품,إلكترونيات,खिलौने,
                ספרים,เครื่องครัว,Sports & Outdoors,Spielzeug für Große,Jeux d’Été,Одежда,Μουσική,服装,食品,신발,
                حقائب,संगीत,"Café, Tea & Sweets 🍵",Ñandú}'::text[]) WITH ORDINALITY AS d (name, n);

-- Ids 1..roots, then the middles, then the leaves; children are dealt out to their parents in turn.
INSERT INTO categories (id, level, parent_id, name)
SELECT n, 1, NULL, name
  FROM shape
  JOIN departments ON n <= roots;

INSERT INTO categories (id, level, parent_id, name)
SELECT roots + n, 2, 1 + (n - 1) % roots,
       nouns[1 + series % 8] || CASE WHEN series >= 8 THEN ' ' || (series / 8 + 1) ELSE '' END
  FROM shape
 CROSS JOIN generate_series(1, middles) AS n
 CROSS JOIN LATERAL (SELECT (n - 1) / roots AS series) AS s
  JOIN words ON language = (n - 1) % roots % 10;

INSERT INTO categories (id, level, parent_id, name)
SELECT roots + middles + n, 3, roots + 1 + (n - 1) % middles,
       adjectives[1 + series % 8] || ' · ' || nouns[1 + (series / 8 + n) % 8]
           || CASE WHEN series >= 8 THEN ' ' || (series / 8 + 1) ELSE '' END
  FROM shape
 CROSS JOIN generate_series(1, leaves) AS n
 CROSS JOIN LATERAL (SELECT (n - 1) / middles AS series) AS s
  JOIN words ON language = (n - 1) % middles % roots % 10;

CREATE TEMPORARY TABLE ranks ON COMMIT DROP AS
SELECT id AS category_id, row_number() OVER (ORDER BY pg_temp.chance(id, 'popular'), id) AS rank
  FROM categories
 WHERE level = 3;
ANALYZE ranks, words, shape;

-- leaves ^ u with u uniform in 0..1, rounded down, is a rank r with a probability of about 1 / r: Zipf.
INSERT INTO products (id, category_id, sku, name, description, price_cents, stock, updated_at)
SELECT n, category_id,
       upper(substr(md5('sku' || n), 1, 4)) || '-' || lpad(n::text, 8, '0'),
       adjectives[1 + (pick & 7)] || ' ' || nouns[1 + ((pick >> 3) & 7)] || ' '
           || chr((65 + (pick >> 6) % 26)::integer) || (pick >> 11) % 900 + 100,
       description,
       round(power(10, 2.3 + 3.2 * pg_temp.chance(n, 'price') / 4294967296.0::float8))::bigint / 10 * 10 + 9,
       CASE WHEN pg_temp.chance(n, 'sold out') % 100 < 7 THEN 0
            ELSE 1 + pg_temp.chance(n, 'stock') % 400 END,
       timestamptz '2024-01-01 00:00:00Z' + pg_temp.chance(n, 'updated') % 31536000 * interval '1 s'
  FROM shape
 CROSS JOIN generate_series(1::bigint, :scale) AS n
 CROSS JOIN LATERAL (SELECT pg_temp.chance(n, 'words') AS pick) AS p
  JOIN ranks ON rank = floor(power(leaves, pg_temp.chance(n, 'rank') / 4294967296.0::float8))::bigint
  JOIN words ON language = n % 10
 CROSS JOIN LATERAL (
        SELECT string_agg(sentences[1 + ((pick >> (k % 24)::integer) + k) % cardinality(sentences)],
                          ' ' ORDER BY k) AS description
          FROM generate_series(1, 3 + pick % 22) AS k
       ) AS d
 ORDER BY n;

SELECT setval(pg_get_serial_sequence('categories', 'id'), (SELECT max(id) FROM categories)),
       setval(pg_get_serial_sequence('products', 'id'), (SELECT max(id) FROM products)) \g /dev/null

-- No cache holds what was not there: 50 000 products need not be invalidated one by one.
TRUNCATE invalidations;

COMMIT;

-- Statistics for the planner, and a visibility map so that the tree's counts come from the index alone.
VACUUM (ANALYZE) categories, products, invalidations;
