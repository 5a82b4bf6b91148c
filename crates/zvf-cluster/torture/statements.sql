-- text
SELECT class, count(*) FROM {points} GROUP BY class;
SELECT class, count(*) AS n, min(x), max(y) FROM {points} GROUP BY class ORDER BY class;
SELECT DISTINCT class FROM {points} ORDER BY class DESC;
SELECT class, x, y FROM {points} WHERE z = 1 ORDER BY class, y, x LIMIT 20;
SELECT class, y FROM {points} WHERE class IN ('roof') AND x < 1 AND y < 20 ORDER BY y, class;
SELECT class, count(*) FROM {points} WHERE class LIKE 'ro%' GROUP BY class ORDER BY class;
SELECT class || '!' AS t, sum(w) FROM {points} GROUP BY t ORDER BY t;
SELECT class, min(x) FROM '{path}' GROUP BY class;
SELECT "A.1".class, max("A.1".x) FROM '{path}' AS "A.1" JOIN '{path}' AS "B""2" ON "A.1".x = "B""2".w AND "B""2".y < 2
 WHERE "A.1".y < 9 GROUP BY "A.1".class;
-- joins
SELECT a.class, count(*) AS n FROM {points} a JOIN (VALUES ('roof', 1), ('wall', 2)) AS b(name, k)
 ON a.class = b.name GROUP BY a.class ORDER BY a.class;
SELECT a.class, count(*) FROM {points} a JOIN (SELECT class, max(w) AS w FROM {points} GROUP BY class) b
 ON a.class = b.class AND a.w = b.w GROUP BY a.class ORDER BY a.class;
-- windows
SELECT class, x, y, row_number() OVER (PARTITION BY class ORDER BY y, x, z) AS k FROM {points}
 WHERE x < 3 ORDER BY class, k LIMIT 30;
-- nulls
SELECT nullif(class, 'tree') AS t, count(*) FROM {points} GROUP BY t ORDER BY t NULLS FIRST;
-- numbers, chunks, limits
SELECT count(*) FROM {points};
SELECT count(*), min(x), max(y), sum(w) FROM {points};
SELECT chunk, count(*) FROM {points} WHERE x < 60 AND y BETWEEN 100 AND 200 GROUP BY chunk;
SELECT count(*) FROM {points} WHERE w = 3 AND chunk IN ('0.0.0', '1.1.0');
SELECT w, count(DISTINCT chunk) FROM {points} GROUP BY w;
SELECT count(*) FROM (SELECT * FROM {points} LIMIT 77777);
SELECT x, y, w FROM {points} WHERE z = 1 ORDER BY y, x, w LIMIT 20;
SELECT count(*) FROM {points} WHERE w > (SELECT avg(w) FROM {points});
SELECT class FROM {points} WHERE w = 3 AND x = 3 UNION SELECT 'none' ORDER BY class;
-- empty answers
SELECT x, y FROM {points} WHERE x < 0;
SELECT class, x FROM {points} WHERE false;
-- lines, links, levels
SELECT count(*), sum(object) FROM zvf('{lines}');
SELECT o.object, o.fragments, count(*) AS n FROM zvf('{lines}') v JOIN zvf('{lines}', 'objects') o
 ON v.object = o.object GROUP BY o.object, o.fragments ORDER BY o.object;
SELECT count(*) FROM zvf('{mesh}', 'links');
SELECT level, kind, vertices FROM zvf('{levels}', 'levels') ORDER BY level;
SELECT count(*) FROM zvf('{levels}', level => 1);
-- errors
SELECT nothing FROM {points};
SELECT count(*) FROM zvf('{missing}');
SELECT 1 / (w - w) FROM {points};
